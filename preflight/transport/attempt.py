"""One host's turn: what it waits for right now, and how to break it off from another thread.

The transports report here, the fan-out reads here; so an abandoned host can be named together with what it was
waiting for, and its connection can be dropped under it. Outside a fan-out the reports go nowhere.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Attempt:
    """The work on one host in one thread."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.waiting_for = "a start"
        self._lock = threading.Lock()
        self._breakers: list[Callable[[], None]] = []
        self._broken = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @contextmanager
    def breakable(self, breaker: Callable[[], None]) -> Iterator[None]:
        """While inside, `break_off` calls `breaker`, which has to make a blocked call in this thread return."""
        with self._lock:
            self._breakers.append(breaker)
            broken = self._broken
        if broken:
            breaker()
        try:
            yield
        finally:
            with self._lock:
                self._breakers.remove(breaker)

    def break_off(self) -> None:
        """Make whatever the thread is doing end soon; callable from any thread."""
        with self._lock:
            self._broken = True
            breakers = tuple(self._breakers)
        for breaker in breakers:
            with suppress(OSError):
                breaker()


_current = threading.local()


def current() -> Attempt:
    """The calling thread's attempt."""
    if not hasattr(_current, "attempt"):
        _current.attempt = Attempt()
    attempt: Attempt = _current.attempt
    return attempt


def begin(attempt: Attempt) -> None:
    """Make `attempt` the calling thread's."""
    _current.attempt = attempt


def waiting_for(what: str) -> None:
    """Report what the calling thread waits for from now on, as a noun: "the ssh banner"."""
    current().waiting_for = what
