"""Findings about bandwidths that the probe measured."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from preflight.checks.engine.registry import All
from preflight.model.figures import Shape, shown_bytes, shown_GBps
from preflight.model.finding import Finding
from preflight.model.measure import Scope
from preflight.model.outcome import Outcome
from preflight.model.peers import FEWEST

_WORST_FIRST = (Outcome.FAIL, Outcome.WARN, Outcome.PASS)


@dataclass(frozen=True)
class Judged:
    """A bandwidth in GB/s, and its share of what it is held against."""

    shape: Shape
    busbw: float
    share: float
    outcome: Outcome  # pass | warn | fail
    least: float  # the share from which it would pass
    against: str  # "the baseline's 10.03 GB/s"

    @property
    def what(self) -> str:
        shape = self.shape
        words = (shape.op, shape.reduction, shape.dtype, shape.form.replace("tensor", ""))
        return f"{' '.join(filter(None, words))}, {shown_bytes(shape.bytes)}"

    @property
    def words(self) -> str:
        return f"{shown_GBps(self.busbw)} GB/s, {self.share:.0%} of {self.against} ({self.what})"


def spoken(all_: All, judged: Iterable[Judged], cause: str, remedy: str) -> Iterator[Finding]:
    """A finding for each group of ranks that is too slow: about its worst figure, with the others as evidence. One for
    all pairs where all are: then it is no pair's own fault."""
    groups: dict[tuple[Scope, str], list[Judged]] = defaultdict(list)
    for one in sorted(judged, key=lambda one: (_WORST_FIRST.index(one.outcome), one.share)):
        groups[one.shape.scope, one.shape.place].append(one)
    bad = {group: same for group, same in groups.items() if same[0].outcome is not Outcome.PASS}
    pairs = [same[0] for (scope, _), same in bad.items() if scope is Scope.PAIR]
    if len(pairs) == sum(scope is Scope.PAIR for scope, _ in groups) >= FEWEST:
        bad = {(scope, place): same for (scope, place), same in bad.items() if scope is not Scope.PAIR}
        shared = "what all pairs share: switches, MTU, flow control, versions, or a job beside the probe"
        yield _finding(all_, f"all {len(pairs)} pairs, the slowest", pairs, shared, remedy)
    for same in bad.values():
        shape = same[0].shape
        if shape.scope is Scope.PAIR:
            place, _, peer = shape.place.partition(" ")
            host, _, device = place.partition("/")
            name = f"{host}: device {device} and {peer}"
            yield _finding(all_, name, same, cause, remedy, host=host, device=int(device), peer=peer)
        elif shape.scope is Scope.HOST:
            yield _finding(all_, f"{shape.place}: its {shape.ranks} ranks", same, cause, remedy, host=shape.place)
        else:
            yield _finding(all_, f"{shape.place or 'all'}, {shape.ranks} ranks", same, cause, remedy)


def _finding(
    all_: All,
    name: str,
    same: list[Judged],
    cause: str,
    remedy: str,
    *,
    host: str | None = None,
    device: int | None = None,
    peer: str | None = None,
) -> Finding:
    worst, *others = same
    return all_.finding(
        worst.outcome,
        f"{name}: {worst.words}",
        host=host,
        device=device,
        peer=peer,
        expected=f"{worst.least:.0%} of {worst.against} or more",
        found=f"{shown_GBps(worst.busbw)} GB/s",
        cause=cause,
        remedy=remedy,
        evidence=tuple(
            f"{one.shape.place} {one.what}: {shown_GBps(one.busbw)} GB/s, {one.share:.0%}".lstrip()
            for one in others[:5]
            if one.outcome is not Outcome.PASS
        ),
    )
