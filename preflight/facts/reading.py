"""A reading: the value, or why there is none."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """A section, or one reading of a device, that could not be had, and why."""

    error: str


@dataclass(frozen=True)
class Found(Generic[T]):
    """A value that was asked for. `error` empty: it is known, and None means "not set" or "not there".

    With an error, it could not be asked for, or the answer is not understood.
    """

    value: T | None = None
    error: str = ""
