"""What a probe measured, in the form in which runs are compared with each other. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from preflight.model.measure import Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome

LEAST = 1 << 20  # bytes from which a time says something about bandwidth; below it is latency, and restless


@dataclass(frozen=True)
class Shape:
    """What has to be equal for two figures to be comparable. `place`: who was in the group, as far as its scope does
    not say it: "node01", "rail 3", "node01/3 node02/3"; empty for all devices."""

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
        """The same at any size."""
        return Shape(self.op, self.reduction, self.form, self.dtype, 0, self.scope, self.place, self.hosts, self.ranks)


@dataclass(frozen=True)
class Figure:
    """`busbw` in GB/s (1e9 bytes), as nccl-tests defines it; `seconds` as in TestResult."""

    shape: Shape
    busbw: float
    seconds: float


@dataclass(frozen=True)
class Baseline:
    """The figures of a run that somebody called good."""

    name: str
    run: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Comparison:
    """A figure of the baseline beside the one of the same shape that was measured now."""

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


# Share of the baseline below which a figure is a warning, and a failure. Groups of many vary more: congestion.
LIMITS = {
    Scope.PAIR: (0.93, 0.80),
    Scope.HOST: (0.93, 0.80),
    Scope.RAIL: (0.90, 0.75),
    Scope.ALL: (0.90, 0.75),
}


def figures(tests: Iterable[TestResult]) -> tuple[Figure, ...]:
    """The bandwidths of a probe, one a shape. Of several measurements of one thing the best counts, because disturbance
    only ever makes a group slower; of several roots the median."""
    from statistics import median  # its import costs more than listing all checks

    best: dict[Shape, dict[int | None, TestResult]] = defaultdict(dict)
    for test in tests:
        if test.scope not in LIMITS or not (test.bytes and test.busbw_GBps and test.seconds):
            continue
        if test.outcome in (TestOutcome.PASS, TestOutcome.SLOW, TestOutcome.UNCHECKED):
            roots = best[shape(test)]
            roots[test.root] = min(test, roots.get(test.root, test), key=lambda one: one.seconds or 0.0)
    return tuple(
        Figure(
            shape_,
            median(test.busbw_GBps or 0.0 for test in roots.values()),
            median(test.seconds or 0.0 for test in roots.values()),
        )
        for shape_, roots in best.items()
    )


def shape(test: TestResult) -> Shape:
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
    """The figures that are in both, at the largest size that both have; the worst first."""
    was = {figure.shape: figure for figure in baseline.figures}
    largest: dict[Shape, Comparison] = {}
    for figure in comparable(now):
        same = was.get(figure.shape)
        if same is None:
            continue
        known = largest.get(figure.shape.kind)
        if known is None or known.now.shape.bytes < figure.shape.bytes:
            largest[figure.shape.kind] = Comparison(same, figure)
    return sorted(largest.values(), key=lambda comparison: comparison.share)


def strangers(baseline: Baseline, now: Iterable[Figure]) -> list[Scope]:
    """The scopes that were measured then and now, but in no shape that can be compared: other hosts, ranks or sizes."""
    measured = comparable(now)
    both = {figure.shape.scope for figure in baseline.figures} & {figure.shape.scope for figure in measured}
    met = {comparison.now.shape.scope for comparison in compare(baseline, measured)}
    return sorted(both - met, key=list(Scope).index)


def comparable(measured: Iterable[Figure]) -> list[Figure]:
    return [figure for figure in measured if figure.shape.bytes >= LEAST]


def shown_GBps(busbw: float) -> str:  # noqa: N802  (the unit is no word)
    """Two decimals, or three digits where that would be none."""
    return f"{busbw:.2f}" if busbw >= 1 else f"{busbw:.3g}"


def shown_bytes(number: int) -> str:
    """16777216 → 16 MiB."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} B"
