"""Python's garbage collector, switched off for work that makes no garbage.

With the facts of a large cluster in memory, each of its walks over all objects takes seconds.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_users = 0  # works that need the collector off; two may overlap, in different threads


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Switch the collector off, and on again when the last of these works ends."""
    global _users
    with _lock:
        _users += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                gc.enable()
