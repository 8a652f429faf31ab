"""Thread-safe decoder of the JSON that hosts send."""

import threading
from typing import TypeVar

T = TypeVar("T")

# msgspec (0.22) prepares a dataclass when it first decodes one; two threads that do so at once crash the interpreter.
_one_at_a_time = threading.Lock()


def decode(text: str | bytes, type_: type[T]) -> T:
    """Decode JSON strictly into `type_`. Raises msgspec.MsgspecError, UnicodeDecodeError or RecursionError."""
    import msgspec

    with _one_at_a_time:
        return msgspec.json.decode(text, type=type_)
