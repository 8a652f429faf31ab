"""The bandwidth of the slowest group, for formats that show one figure for many groups. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from preflight.model.measure import Scope, TestResult


class Measurement(NamedTuple):
    """Comparable measurements: the same operation, size and type, in groups of the same scope."""

    op: str
    dtype: str
    bytes: int
    scope: Scope


def slowest_groups(tests: Iterable[TestResult]) -> dict[Measurement, float]:
    """Return the busbw in GB/s of the slowest measured group of each kind.

    The best of a group's repetitions counts, since noise only ever makes a group slower.
    """
    best: dict[Measurement, dict[object, float]] = {}
    for test in tests:
        if test.busbw_GBps is not None:
            groups = best.setdefault(Measurement(test.op, test.dtype, test.bytes, test.scope), {})
            root = next((member.place for member in test.members if member.rank == test.root), None)
            group = frozenset(member.place for member in test.members), root
            groups[group] = max(test.busbw_GBps, groups.get(group, 0.0))
    return {kind: min(groups.values()) for kind, groups in best.items()}
