"""One more try for a connection that was refused or dropped before the login; never after the login."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from preflight.transport.types import ErrorKind, TransportError

T = TypeVar("T")


def once_more(work: Callable[[], T], deadline: float) -> T:
    """Return the result of `work`, called once more after a short pause if it raises REFUSED.

    REFUSED is never raised after the login. The pause is random, so that refused hosts do not return all at once.
    """
    pause = random.uniform(0.2, 0.7)
    try:
        return work()
    except TransportError as error:
        if error.kind is not ErrorKind.REFUSED or time.monotonic() + pause >= deadline:
            raise
    time.sleep(pause)
    return work()
