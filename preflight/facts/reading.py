"""One thing that was looked for: the value, or why it could not be had."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """A section, or one reading of a device, that could not be looked at, and why."""

    error: str


@dataclass(frozen=True)
class Found(Generic[T]):
    """`error` empty: looked, and `value` None means "not set", "not there". Otherwise could not look, or what was said
    is not understood."""

    value: T | None = None
    error: str = ""
