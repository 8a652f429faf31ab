"""Password for sudo: kept in memory only, and sent to one host until that host has accepted it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class NotSentError(Exception):
    """Error: the host `by` refused the password, so it is sent to no other host."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


class PasswordTrial:
    """One password sent to one host. `line` is for sudo's stdin. `accepted` is sudo's answer, None if none came."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.accepted: bool | None = None


class Password:
    """Password that serves all hosts of a command. Thread-safe. Its text is in no repr and in no exception.

    If all hosts share one database of accounts, a wrong password sent to each of them locks the account.
    So the first host that asks gets it alone and the others wait for the result. After a refusal on any host, only
    hosts that accepted it before get it again.
    """

    def __init__(self, text: str) -> None:
        self._line = text.encode("utf-8", "surrogateescape") + b"\n"
        self._changed = threading.Condition()
        self._accepted_by: set[str] = set()
        self._refused_by = ""
        self._first_trial_runs = False

    def __repr__(self) -> str:
        return "Password(…)"

    @contextmanager
    def trial(self, host: str, deadline: float) -> Iterator[PasswordTrial]:
        """Give permission to send the password to `host`, once. The result is read from the trial at the end.

        Raises NotSentError, and TimeoutError if the first host has not answered by `deadline` (time.monotonic()).
        """
        alone = self._wait_for_permission(host, deadline)
        trial = PasswordTrial(self._line)
        try:
            yield trial
        finally:
            with self._changed:
                if alone:
                    self._first_trial_runs = False
                if trial.accepted:
                    self._accepted_by.add(host)
                elif trial.accepted is False:
                    self._accepted_by.discard(host)
                    self._refused_by = host
                self._changed.notify_all()

    def _wait_for_permission(self, host: str, deadline: float) -> bool:
        """Return true if this is the first trial, which runs on this host alone."""
        with self._changed:
            while True:
                if host in self._accepted_by:
                    return False
                if self._refused_by:
                    raise NotSentError(self._refused_by)
                if self._accepted_by:
                    return False
                if not self._first_trial_runs:
                    self._first_trial_runs = True
                    return True
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError
