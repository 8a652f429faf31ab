"""Hosts and devices that failed the same check in earlier runs too: intermittent faults."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from preflight.history.store import reading
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

if TYPE_CHECKING:
    import sqlite3

RUNS = 5  # earlier runs over the same host that had the same check
FAILED = 2  # failures among these that are worth a note
NOTES = 3
_RUNS_READ = 25  # of the cluster, to find RUNS among them
_NAMES = 4

_LATEST = "SELECT number, checks FROM runs WHERE cluster = ? ORDER BY number DESC LIMIT ?"
_HOSTS = "SELECT number, host FROM hosts JOIN runs USING (number) WHERE cluster = ? AND number >= ?"
_FAILURES = """SELECT number, check_id, host, device, peer FROM findings JOIN runs USING (number)
    WHERE outcome = 'fail' AND cluster = ? AND number >= ?"""

Subject = tuple[str, str, int | None, str | None]  # check, host, device, peer


@dataclass(frozen=True)
class RepeatedFailure:
    """A failure that occurred before. `failed` counts it in the last `runs` runs before this one.

    `device` is None if the host as a whole failed. `peer` is set if either of the two may be at fault: then it is the
    pair that fails again.
    """

    check: str
    host: str
    device: int | None
    peer: str | None
    failed: int
    runs: int

    @property
    def place(self) -> str:
        own = self.host if self.device is None else f"{self.host}/{self.device}"
        return f"{own} with {self.peer}" if self.peer else own


@dataclass(frozen=True)
class _EarlierRuns:
    """The newest runs of a cluster, newest first: `checks` by run number, and run numbers by host and by failure."""

    checks: dict[int, list[str]]
    of_host: dict[str, set[int]]
    of_failure: dict[Subject, set[int]]

    def count(self, subject: Subject) -> tuple[int, int]:
        """Return how often the subject failed, and in how many runs its check and host were included."""
        check, host, *_ = subject
        runs = [number for number, ids in self.checks.items() if check in ids and number in self.of_host[host]][:RUNS]
        return len(self.of_failure[subject].intersection(runs)), len(runs)


def repeated_failures(cluster: str, findings: Iterable[Finding]) -> list[RepeatedFailure]:
    """Return the failures of a run that occurred before, the most frequent first. Raises HistoryError.

    The run itself is not in the history yet.
    """
    subjects: set[Subject] = {
        (finding.check, finding.host, finding.device, finding.peer)
        for finding in findings
        if finding.outcome is Outcome.FAIL and finding.host is not None
    }
    if not subjects:
        return []
    with reading() as db:
        earlier = _earlier_runs(db, cluster)
    counts = ((subject, *earlier.count(subject)) for subject in subjects)
    failures = [RepeatedFailure(*subject, failed, runs) for subject, failed, runs in counts if failed >= FAILED]
    return sorted(failures, key=lambda f: (-f.failed, f.check, f.host, f.device or 0, f.peer or ""))


def _earlier_runs(db: "sqlite3.Connection", cluster: str) -> _EarlierRuns:
    checks = {number: ids.split() for number, ids in db.execute(_LATEST, (cluster, _RUNS_READ))}
    of_host: dict[str, set[int]] = defaultdict(set)
    of_failure: dict[Subject, set[int]] = defaultdict(set)
    since = (cluster, min(checks, default=0))
    for number, host in db.execute(_HOSTS, since):
        of_host[host].add(number)
    for number, check, host, device, peer in db.execute(_FAILURES, since):
        of_failure[check, host, device, peer].add(number)
    return _EarlierRuns(checks, of_host, of_failure)


def notes(failures: Sequence[RepeatedFailure], fold: Callable[[Iterable[str]], str]) -> Iterator[str]:
    """Yield a sentence for each of the first few checks. `fold` turns host names into a node set: node[01-16]."""
    by_check: dict[str, list[RepeatedFailure]] = defaultdict(list)
    for failure in failures:
        by_check[failure.check].append(failure)
    for check, group in list(by_check.items())[:NOTES]:
        worst = group[0]
        up_to = "up to " if len({(failure.failed, failure.runs) for failure in group}) > 1 else ""
        yield (
            f"{_places(group, fold)} failed {check} in {up_to}{worst.failed} of the previous {worst.runs} runs. "
            f"See: preflight history --host {worst.host}"
        )
    if len(by_check) > NOTES:
        yield f"hosts repeatedly failed {len(by_check) - NOTES} more checks. See: preflight history"


def _places(failures: Sequence[RepeatedFailure], fold: Callable[[Iterable[str]], str]) -> str:
    places = [failure.place for failure in failures]
    if all(failure.place == failure.host for failure in failures):
        return fold(places)
    return ", ".join(places[:_NAMES]) + (f" and {len(places) - _NAMES} more" if len(places) > _NAMES else "")
