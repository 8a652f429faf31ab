"""Bandwidths of a probe, in the form in which runs are compared. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from preflight.model.measure import Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome

LEAST = 1 << 20  # bytes from which a time measures bandwidth; below it is latency, which varies


@dataclass(frozen=True)
class Shape:
    """The properties that two comparable figures share.

    `place` is the group as far as its scope leaves it open: "node01", "rail 3", "node01/3 node02/3", "" for all
    devices.
    """

    op: str
    reduction: str
    form: str
    dtype: str
    bytes: int
    scope: Scope
    place: str
    hosts: int
    ranks: int

    @property
    def kind(self) -> "Shape":
        """The same shape at any size."""
        return replace(self, bytes=0)


@dataclass(frozen=True)
class Figure:
    """A bandwidth: `busbw` in GB/s (1e9 bytes), as nccl-tests defines it. `seconds` is that of TestResult."""

    shape: Shape
    busbw: float
    seconds: float


@dataclass(frozen=True)
class Baseline:
    """The figures of a run that an operator called good."""

    name: str
    run: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Comparison:
    """A figure of the baseline and the new figure of the same shape."""

    was: Figure
    now: Figure

    @property
    def share(self) -> float:
        return self.now.busbw / self.was.busbw

    @property
    def outcome(self) -> Outcome:
        warn, fail = LIMITS[self.now.shape.scope]
        if self.share < fail:
            return Outcome.FAIL
        return Outcome.WARN if self.share < warn else Outcome.PASS


# Shares of the baseline below which a figure is a warning, and a failure. Large groups vary more: congestion.
LIMITS = {
    Scope.PAIR: (0.93, 0.80),
    Scope.HOST: (0.93, 0.80),
    Scope.RAIL: (0.90, 0.75),
    Scope.ALL: (0.90, 0.75),
}


def figures(tests: Iterable[TestResult]) -> tuple[Figure, ...]:
    """Return the bandwidths of a probe, one for each shape.

    The best of repeated measurements counts, because disturbance only makes a group slower. The median of several roots
    counts.
    """
    from statistics import median  # its import costs more than listing all checks

    best: dict[Shape, dict[int | None, TestResult]] = defaultdict(dict)
    for test in filter(_measures_bandwidth, tests):
        roots = best[shape(test)]
        roots[test.root] = min(test, roots.get(test.root, test), key=lambda result: result.seconds or 0.0)
    return tuple(
        Figure(
            shape_,
            median(test.busbw_GBps or 0.0 for test in roots.values()),
            median(test.seconds or 0.0 for test in roots.values()),
        )
        for shape_, roots in best.items()
    )


def _measures_bandwidth(test: TestResult) -> bool:
    if test.scope not in LIMITS or test.outcome not in (TestOutcome.PASS, TestOutcome.SLOW, TestOutcome.UNCHECKED):
        return False
    return bool(test.bytes and test.busbw_GBps and test.seconds)


def shape(test: TestResult) -> Shape:
    """Return the shape of a test's figure."""
    hosts = {member.host for member in test.members}
    places = sorted(member.place for member in test.members)
    place = {
        Scope.HOST: min(hosts, default=""),
        Scope.RAIL: f"rail {test.members[0].device}" if test.members else "",
        Scope.PAIR: " ".join(places),
    }.get(test.scope, "")
    return Shape(
        test.op, test.reduction, test.form, test.dtype, test.bytes, test.scope, place, len(hosts), len(test.members)
    )


def compare(baseline: Baseline, now: Iterable[Figure]) -> list[Comparison]:
    """Return the figures that are in both, at the largest size that both have, the worst first."""
    was = {figure.shape: figure for figure in baseline.figures}
    largest: dict[Shape, Comparison] = {}
    for figure in comparable(now):
        earlier = was.get(figure.shape)
        if earlier is None:
            continue
        comparison = largest.get(figure.shape.kind)
        if comparison is None or comparison.now.shape.bytes < figure.shape.bytes:
            largest[figure.shape.kind] = Comparison(earlier, figure)
    return sorted(largest.values(), key=lambda comparison: comparison.share)


def strangers(baseline: Baseline, now: Iterable[Figure]) -> list[Scope]:
    """Return the scopes that were measured then and now, but with other hosts, ranks or sizes, so not comparable."""
    measured = comparable(now)
    both = {figure.shape.scope for figure in baseline.figures} & {figure.shape.scope for figure in measured}
    met = {comparison.now.shape.scope for comparison in compare(baseline, measured)}
    return sorted(both - met, key=list(Scope).index)


def comparable(measured: Iterable[Figure]) -> list[Figure]:
    """Return the figures that are large enough to measure bandwidth."""
    return [figure for figure in measured if figure.shape.bytes >= LEAST]


def shown_GBps(busbw: float) -> str:  # noqa: N802  (the unit is no word)
    """Return the bandwidth with two decimals, or with three digits below 1 GB/s."""
    return f"{busbw:.2f}" if busbw >= 1 else f"{busbw:.3g}"


def shown_bytes(number: int) -> str:
    """Return a number of bytes with its unit: 16777216 → 16 MiB."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} B"
