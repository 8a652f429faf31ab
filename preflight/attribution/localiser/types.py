"""Types of the localiser: tests of groups, their results, and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

Member: TypeAlias = Any  # hashable and sortable, usually a host's name
Group: TypeAlias = frozenset[Member]


class GroupOutcome(StrEnum):
    """Outcome of a test. All but PASS and NOT_RUN are failures."""

    PASS = "pass"
    FAIL = "fail"
    HANG = "hang"
    SLOW = "slow"
    WRONG_DATA = "wrong_data"
    NOT_RUN = "not_run"


@dataclass(frozen=True)
class Test:
    """One run of members that work together. `attempt` numbers the tests of the same members from 1."""

    __test__ = False  # not a pytest class

    members: Group
    attempt: int = 1

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise ValueError(f"a test needs at least two members, not {sorted(self.members)}")


Tests: TypeAlias = tuple[Test, ...]


@dataclass(frozen=True)
class GroupResult:
    """A test with its outcome, and its bandwidth in GB/s where that was measured."""

    test: Test
    outcome: GroupOutcome
    value: float | None = None

    @property
    def failed(self) -> bool:
        return self.outcome not in (GroupOutcome.PASS, GroupOutcome.NOT_RUN)


@dataclass(frozen=True)
class Verdict:
    """Faults that the tests show, each with its tests. Members in none of the fields passed.

    `faulty`: members that fail whichever good partner they have. `unknown`: members that are neither good nor faulty.
    `scale`: the smallest groups that fail although every tested part of them passes. `transient`: groups that failed
    and passed when they were tried again, which is no fault yet. `systemic`: nothing passes, so no member is faulty.
    """

    faulty: Mapping[Member, Tests] = field(default_factory=dict)
    intermittent: Mapping[Member, Tests] = field(default_factory=dict)
    unknown: Mapping[Member, Tests] = field(default_factory=dict)
    links: Mapping[Group, Tests] = field(default_factory=dict)
    partitions: Mapping[Group, Tests] = field(default_factory=dict)
    scale: Mapping[Group, Tests] = field(default_factory=dict)
    transient: Mapping[Group, Tests] = field(default_factory=dict)
    systemic: bool = False
