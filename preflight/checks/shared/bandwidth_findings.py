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
    """A bandwidth in GB/s, and its share of the figure that it is compared with."""

    shape: Shape
    busbw: float
    share: float
    outcome: Outcome  # pass | warn | fail
    least: float  # the smallest share that passes
    against: str  # "the baseline's 10.03 GB/s"

    @property
    def what(self) -> str:
        shape = self.shape
        words = (shape.op, shape.reduction, shape.dtype, shape.form.replace("tensor", ""))
        return f"{' '.join(filter(None, words))}, {shown_bytes(shape.bytes)}"

    @property
    def words(self) -> str:
        return f"{shown_GBps(self.busbw)} GB/s, {self.share:.0%} of {self.against} ({self.what})"


def spoken(scribe: All, judged: Iterable[Judged], cause: str, remedy: str) -> Iterator[Finding]:
    """Yield a finding for each group of ranks that is too slow, about its worst figure, with the others as evidence.

    If all pairs are too slow, they share one finding, since no single pair is at fault."""
    groups: dict[tuple[Scope, str], list[Judged]] = defaultdict(list)
    for figure in sorted(judged, key=lambda figure: (_WORST_FIRST.index(figure.outcome), figure.share)):
        groups[figure.shape.scope, figure.shape.place].append(figure)
    bad = {group: figures for group, figures in groups.items() if figures[0].outcome is not Outcome.PASS}
    pairs = [figures[0] for (scope, _), figures in bad.items() if scope is Scope.PAIR]
    if len(pairs) == sum(scope is Scope.PAIR for scope, _ in groups) >= FEWEST:
        bad = {(scope, place): figures for (scope, place), figures in bad.items() if scope is not Scope.PAIR}
        shared = "what all pairs share: switches, MTU, flow control, versions, or a job beside the probe"
        yield _finding(scribe, f"all {len(pairs)} pairs, the slowest", pairs, shared, remedy)
    for figures in bad.values():
        shape = figures[0].shape
        if shape.scope is Scope.PAIR:
            place, _, peer = shape.place.partition(" ")
            host, _, device = place.partition("/")
            name = f"{host}: device {device} and {peer}"
            yield _finding(scribe, name, figures, cause, remedy, host=host, device=int(device), peer=peer)
        elif shape.scope is Scope.HOST:
            yield _finding(scribe, f"{shape.place}: its {shape.ranks} ranks", figures, cause, remedy, host=shape.place)
        else:
            yield _finding(scribe, f"{shape.place or 'all'}, {shape.ranks} ranks", figures, cause, remedy)


def _finding(
    scribe: All,
    name: str,
    same: list[Judged],
    cause: str,
    remedy: str,
    *,
    host: str | None = None,
    device: int | None = None,
    peer: str | None = None,
) -> Finding:
    worst, *other_figures = same
    return scribe.finding(
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
            f"{figure.shape.place} {figure.what}: {shown_GBps(figure.busbw)} GB/s, {figure.share:.0%}".lstrip()
            for figure in other_figures[:5]
            if figure.outcome is not Outcome.PASS
        ),
    )
