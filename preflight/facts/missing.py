"""The word for what could not be looked at; `facts.types` has it for all others."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """A section, or one reading of a device, that could not be looked at, and why."""

    error: str
