"""The password that sudo is given: kept in memory only, and sent to no more hosts than have shown that it is right."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class NotSentError(Exception):
    """The password was refused on the host `by`, and is sent to no further one."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


class PasswordTrial:
    """One password sent to one host. `took` is set once sudo has answered; None stays where no answer came."""

    def __init__(self, line: bytes) -> None:
        self.line = line  # what goes to sudo's stdin, with its newline
        self.took: bool | None = None


class Password:
    """One object serves all hosts of a command; thread-safe. Its text stands in no repr and in no exception.

    Where one database of accounts serves all hosts, a wrong password sent to each of them locks the account. So the
    first host that asks gets it alone and the others wait for the outcome; after a refusal, on whichever host, only
    those still get it that took it before.
    """

    def __init__(self, text: str) -> None:
        self._line = text.encode("utf-8", "surrogateescape") + b"\n"
        self._changed = threading.Condition()
        self._taken_by: set[str] = set()
        self._refused_by = ""
        self._first_is_trying = False

    def __repr__(self) -> str:
        return "Password(…)"

    @contextmanager
    def trial(self, host: str, deadline: float) -> Iterator[PasswordTrial]:
        """Leave to send the password to `host`, once; what came of it is read from the trial at the end.

        Raises NotSentError, and TimeoutError where the first host has not answered by `deadline` (time.monotonic()).
        """
        alone = self._wait_for_leave(host, deadline)
        trial = PasswordTrial(self._line)
        try:
            yield trial
        finally:
            with self._changed:
                if alone:
                    self._first_is_trying = False
                if trial.took:
                    self._taken_by.add(host)
                elif trial.took is False:
                    self._taken_by.discard(host)
                    self._refused_by = host
                self._changed.notify_all()

    def _wait_for_leave(self, host: str, deadline: float) -> bool:
        """Whether it is tried for the first time, and so on this host alone."""
        with self._changed:
            while True:
                if host in self._taken_by:
                    return False
                if self._refused_by:
                    raise NotSentError(self._refused_by)
                if self._taken_by:
                    return False
                if not self._first_is_trying:
                    self._first_is_trying = True
                    return True
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError
