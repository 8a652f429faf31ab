"""What the localiser speaks: tests, how they ended, and whom they convict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

Member: TypeAlias = Any  # hashable and sortable; a host's name, mostly
Group: TypeAlias = frozenset[Member]


class Outcome(StrEnum):
    """How a test ended. Everything between PASS and NOT_RUN is a failure."""

    PASS = "pass"
    FAIL = "fail"
    HANG = "hang"
    SLOW = "slow"
    WRONG_DATA = "wrong_data"
    NOT_RUN = "not_run"


@dataclass(frozen=True)
class Test:
    """Members that work together once. `attempt` tells the second test of the same members from the first."""

    __test__ = False  # not a pytest class

    members: Group
    attempt: int = 1

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise ValueError(f"a test needs at least two members, not {sorted(self.members)}")


@dataclass(frozen=True)
class Result:
    test: Test
    outcome: Outcome
    value: float | None = None  # more is better: GB/s

    @property
    def failed(self) -> bool:
        return self.outcome not in (Outcome.PASS, Outcome.NOT_RUN)


Tests: TypeAlias = tuple[Test, ...]


@dataclass(frozen=True)
class Verdict:
    """Whom the tests convict, each with the tests that say so. What stands nowhere here passed.

    `unknown`: neither proven good nor convicted. `scale`: smallest sets that fail although every part of them that was
    tried passes. `transient`: members that failed together and passed when they were tried again, which is nobody's
    fault yet. `systemic`: why nobody is convicted although nothing passes; else empty.
    """

    convicted: Mapping[Member, Tests] = field(default_factory=dict)
    intermittent: Mapping[Member, Tests] = field(default_factory=dict)
    unknown: Mapping[Member, Tests] = field(default_factory=dict)
    links: Mapping[Group, Tests] = field(default_factory=dict)
    partitions: Mapping[Group, Tests] = field(default_factory=dict)
    scale: Mapping[Group, Tests] = field(default_factory=dict)
    transient: Mapping[Group, Tests] = field(default_factory=dict)
    systemic: str = ""
