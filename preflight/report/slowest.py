"""The bandwidth of the slowest group, for the forms that show one figure for many groups. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from preflight.model.measure import Scope, TestResult


class Kind(NamedTuple):
    """What can be compared: the same operation, of the same size and type, in groups of the same scope."""

    op: str
    dtype: str
    bytes: int
    scope: Scope


def slowest_groups(tests: Iterable[TestResult]) -> dict[Kind, float]:
    """The busbw in GB/s of the slowest group of each kind, as far as it was measured. Of one group's repetitions the
    best counts: noise only ever makes a group slower."""
    best: dict[Kind, dict[object, float]] = {}
    for test in tests:
        if test.busbw_GBps is not None:
            groups = best.setdefault(Kind(test.op, test.dtype, test.bytes, test.scope), {})
            root = next((member.place for member in test.members if member.rank == test.root), None)
            group = frozenset(member.place for member in test.members), root
            groups[group] = max(test.busbw_GBps, groups.get(group, 0.0))
    return {kind: min(groups.values()) for kind, groups in best.items()}
