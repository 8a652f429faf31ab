"""Who fails again and again: a fault that comes and goes is worth more attention than each of its visits."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from preflight.history.store import reading
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

RUNS = 5  # earlier ones over the same host in which the same check looked
FAILED = 2  # of these
NOTES = 3
_LOOK_BACK = 25  # runs of the cluster among which those are sought
_NAMES = 4


@dataclass(frozen=True)
class Offender:
    """`device`: None where the host as a whole failed the check. `peer`: with whom, where it is not known who of the
    two is at fault: then it is the pair that fails again. It `failed` in so many of the last `runs` before this one.
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


def offenders(cluster: str, findings: Iterable[Finding]) -> list[Offender]:
    """Those that fail now and failed before, the most frequent first; of a run that is not written down yet. Raises
    HistoryError."""
    now = {(f.check, f.host, f.device, f.peer) for f in findings if f.outcome is Outcome.FAIL and f.host is not None}
    if not now:
        return []
    over: dict[str, set[int]] = defaultdict(set)
    failed: dict[tuple[str, str | None, int | None, str | None], set[int]] = defaultdict(set)
    with reading() as db:
        latest = "SELECT number, checks FROM runs WHERE cluster = ? ORDER BY number DESC LIMIT ?"
        looked = [(number, checks.split()) for number, checks in db.execute(latest, (cluster, _LOOK_BACK))]
        since = (cluster, min((number for number, _ in looked), default=0))
        hosts = "SELECT number, host FROM hosts JOIN runs USING (number) WHERE cluster = ? AND number >= ?"
        for number, host in db.execute(hosts, since):
            over[host].add(number)
        fails = """SELECT number, check_id, host, device, peer FROM findings JOIN runs USING (number)
            WHERE outcome = 'fail' AND cluster = ? AND number >= ?"""
        for number, *subject in db.execute(fails, since):
            failed[tuple(subject)].add(number)
    found = []
    for check, host, device, peer in now:
        runs = [number for number, checks in looked if check in checks and number in over[host]][:RUNS]
        times = len(failed[check, host, device, peer].intersection(runs))
        if times >= FAILED:
            found.append(Offender(check, host, device, peer, times, len(runs)))
    return sorted(found, key=lambda one: (-one.failed, one.check, one.host, one.device or 0, one.peer or ""))


def notes(found: Sequence[Offender], fold: Callable[[Iterable[str]], str]) -> Iterator[str]:
    """A sentence a check, for the few worst. `fold`: host names → node[01-16]."""
    by_check: dict[str, list[Offender]] = defaultdict(list)
    for one in found:
        by_check[one.check].append(one)
    for check, same in list(by_check.items())[:NOTES]:
        worst, places = same[0], [one.place for one in same]
        if all(one.place == one.host for one in same):
            who = fold(places)
        else:
            who = ", ".join(places[:_NAMES]) + (f" and {len(places) - _NAMES} more" if len(places) > _NAMES else "")
        often = f"{worst.failed} of the {worst.runs} runs before this one"
        up_to = "up to " if len({(one.failed, one.runs) for one in same}) > 1 else ""
        yield f"{who} failed {check} in {up_to}{often}, too: preflight history --host {worst.host}"
    if len(by_check) > NOTES:
        yield f"hosts failed {len(by_check) - NOTES} other checks again, too: preflight history"
