"""Work on one host: the step at which it waits, and a way to break it off from another thread.

The transports report their steps here and the fan-out reads them. So the error of a host that timed out names the
step, its connection can be dropped, and other hosts log in while this one only waits. Outside a fan-out the reports go
nowhere.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LOG = logging.getLogger(__name__)


class Attempt:
    """Work on one host in one thread. `host` is its name, if a fan-out works on it. `on_login` is called once."""

    def __init__(self, host: str = "", on_login: "Callable[[Attempt], None]" = lambda _: None) -> None:
        self.host = host
        self._on_login = on_login
        self._logged_in = False
        self.started = time.monotonic()
        self.waiting_for = "the start of the connection"
        self._lock = threading.Lock()
        self._breakers: list[Callable[[], None]] = []
        self._broken = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @contextmanager
    def breakable(self, breaker: Callable[[], None]) -> Iterator[None]:
        """Have `break_off` call `breaker` while inside. `breaker` must make a blocked call in this thread return."""
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

    def logged_in(self) -> None:
        """Report that the login is over, and that the host now works."""
        if not self._logged_in:
            self._logged_in = True
            self._on_login(self)

    def break_off(self) -> None:
        """Make the thread's current call end soon. Callable from any thread."""
        with self._lock:
            self._broken = True
            breakers = tuple(self._breakers)
        for breaker in breakers:
            with suppress(Exception):  # whatever the connection's state is, the others are broken off, too
                breaker()


_current = threading.local()


def current() -> Attempt:
    """Return the calling thread's attempt."""
    if not hasattr(_current, "attempt"):
        _current.attempt = Attempt()
    attempt: Attempt = _current.attempt
    return attempt


def begin(attempt: Attempt) -> None:
    """Make `attempt` the calling thread's."""
    _current.attempt = attempt


def waiting_for(step: str) -> None:
    """Report the step at which the calling thread waits from now on, as a noun: "the ssh banner"."""
    attempt = current()
    attempt.waiting_for = step
    if attempt.host:
        _LOG.info("%s: waiting for %s", attempt.host, step)
