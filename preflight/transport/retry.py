"""One more try for a connection that was refused or dropped before anybody logged in; never after that."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from preflight.transport.types import ErrorKind, TransportError

T = TypeVar("T")


def once_more(work: Callable[[], T], deadline: float) -> T:
    """`work`, and again after a short pause if it raises REFUSED, which nothing raises after login.

    The pause varies: hosts that were refused together shall not come back together.
    """
    pause = random.uniform(0.2, 0.7)
    try:
        return work()
    except TransportError as error:
        if error.kind is not ErrorKind.REFUSED or time.monotonic() + pause >= deadline:
            raise
    time.sleep(pause)
    return work()
