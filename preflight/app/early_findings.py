"""The first failures of hosts, shown while other hosts are still collected."""

import threading
import time
from collections.abc import Callable, Sequence

from preflight.facts.types import HostFacts
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

QUIET = 2.0  # seconds until the first host is looked at: a small cluster is done by then
EVERY = 0.1  # seconds between two hosts, since each costs this machine some milliseconds
MOST = 8  # checks that are shown


class EarlyFindings:
    """The first failure of each check, on a sample of the hosts. Thread-safe.

    `judge` returns the findings about one host from its facts alone. `show` receives a line for the user.
    """

    def __init__(self, judge: Callable[[str, HostFacts], Sequence[Finding]], show: Callable[[str], None]) -> None:
        self._judge = judge
        self._show = show
        self._lock = threading.Lock()
        self._next = time.monotonic() + QUIET
        self._shown: set[str] = set()  # ids of checks

    def take(self, host: str, facts: HostFacts) -> None:
        """Receive the facts of a host, in the thread of its connection."""
        if not self._takes_turn():
            return
        for finding in self._judge(host, facts):
            if finding.outcome is Outcome.FAIL and self._is_new(finding.check):
                self._show(f"first FAIL of {finding.check}: {finding.summary}")

    def _takes_turn(self) -> bool:
        with self._lock:
            now = time.monotonic()
            if now < self._next or len(self._shown) >= MOST:
                return False
            self._next = now + EVERY
            return True

    def _is_new(self, check: str) -> bool:
        with self._lock:
            is_new = check not in self._shown and len(self._shown) < MOST
            self._shown |= {check} if is_new else set()
            return is_new
