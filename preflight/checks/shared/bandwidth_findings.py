"""Findings about bandwidths that the probe measured."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack

from preflight.checks.engine.registry import All, Subject
from preflight.model.figures import Shape, shown_bytes, shown_GBps
from preflight.model.finding import Finding
from preflight.model.measure import Scope
from preflight.model.outcome import Outcome
from preflight.model.peers import FEWEST

_WORST_FIRST = (Outcome.FAIL, Outcome.WARN, Outcome.PASS)


@dataclass(frozen=True)
class ComparedBandwidth:
    """A bandwidth in GB/s, and its share of the figure that it is compared with."""

    shape: Shape
    busbw: float
    share: float
    outcome: Outcome  # pass | warn | fail
    least: float  # the smallest share that passes
    against: str  # "the baseline's 10.03 GB/s"

    @property
    def test(self) -> str:
        shape = self.shape
        words = (shape.op, shape.reduction, shape.dtype, shape.form.replace("tensor", ""))
        return f"{' '.join(filter(None, words))}, {shown_bytes(shape.bytes)}"

    @property
    def words(self) -> str:
        return f"{shown_GBps(self.busbw)} GB/s, {self.share:.0%} of {self.against} ({self.test})"


class Advice(NamedTuple):
    """The likely cause of a low bandwidth, and the first thing to do about it."""

    cause: str
    remedy: str
    commands: tuple[str, ...] = ()


def slow_findings(scribe: All, bandwidths: Iterable[ComparedBandwidth], advice: Advice) -> Iterator[Finding]:
    """Yield a finding for each group of ranks that is too slow, about its worst figure, with the others as evidence.

    If all pairs are too slow, they share one finding, since no single pair is at fault."""
    groups = _by_group(bandwidths)
    slow = [figures for figures in groups.values() if figures[0].outcome is not Outcome.PASS]
    slow_pairs = [figures[0] for figures in slow if figures[0].shape.scope is Scope.PAIR]
    if len(slow_pairs) == sum(scope is Scope.PAIR for scope, _ in groups) >= FEWEST:
        shared = "the switches, the MTU, the flow control, mismatched versions, or a job that ran at the same time"
        yield _finding(
            scribe,
            f"all {len(slow_pairs)} pairs are slow. The slowest reaches",
            slow_pairs,
            advice._replace(cause=shared),
        )
        slow = [figures for figures in slow if figures[0].shape.scope is not Scope.PAIR]
    for figures in slow:
        name, subject = _subject(figures[0].shape)
        yield _finding(scribe, name, figures, advice, **subject)


def _by_group(bandwidths: Iterable[ComparedBandwidth]) -> dict[tuple[Scope, str], list[ComparedBandwidth]]:
    """Return the figures of each group of ranks, the worst first."""
    groups: dict[tuple[Scope, str], list[ComparedBandwidth]] = defaultdict(list)
    for figure in sorted(bandwidths, key=lambda figure: (_WORST_FIRST.index(figure.outcome), figure.share)):
        groups[figure.shape.scope, figure.shape.place].append(figure)
    return groups


def _subject(shape: Shape) -> tuple[str, Subject]:
    """Return a group of ranks in words, and the host and devices that a finding about it has."""
    if shape.scope is Scope.PAIR:
        place, _, peer = shape.place.partition(" ")
        host, _, device = place.partition("/")
        return f"{host}: {place} and {peer} reach", {"host": host, "device": int(device), "peer": peer}
    if shape.scope is Scope.HOST:
        return f"{shape.place}: {shape.ranks} ranks reach", {"host": shape.place}
    return f"{shape.place}, {shape.ranks} ranks reach" if shape.place else f"all {shape.ranks} ranks reach", {}


def _finding(
    scribe: All,
    name: str,
    figures: Sequence[ComparedBandwidth],
    advice: Advice,
    **subject: Unpack[Subject],
) -> Finding:
    worst, *other_figures = figures
    return scribe.finding(
        worst.outcome,
        f"{name} {worst.words}",
        **subject,
        **advice._asdict(),
        expected=f"{worst.least:.0%} of {worst.against} or more",
        found=f"{shown_GBps(worst.busbw)} GB/s",
        evidence=tuple(
            f"{figure.shape.place} {figure.test}: {shown_GBps(figure.busbw)} GB/s, {figure.share:.0%}".lstrip()
            for figure in other_figures[:5]
            if figure.outcome is not Outcome.PASS
        ),
    )
