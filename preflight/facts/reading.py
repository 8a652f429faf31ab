"""A reading: its value, or the reason why there is none."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """A section or a reading that is not available, with the reason."""

    error: str


@dataclass(frozen=True)
class Found(Generic[T]):
    """A requested value. `error` empty: it is known, and None means "not set" or "not there".

    With an error, the request failed, or the answer is not understood.
    """

    value: T | None = None
    error: str = ""


NOT_SET: Found[Any] = Found()
