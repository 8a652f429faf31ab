"""What the probe measured: tests over groups of devices."""

from dataclasses import dataclass
from enum import StrEnum


class TestOutcome(StrEnum):
    """How a probe test ended; the names are those of the localiser's `Outcome`, in lower case."""

    __test__ = False  # not a pytest class

    PASS = "pass"
    FAIL = "fail"
    HANG = "hang"
    SLOW = "slow"
    WRONG_DATA = "wrong_data"
    NOT_RUN = "not_run"


@dataclass(frozen=True)
class Member:
    host: str
    device: int
    rank: int


@dataclass(frozen=True)
class TestResult:
    """One collective over one group. `bytes` is the tensor's size per rank, `seconds` the median over iterations of
    the maximum over ranks; bandwidths in GB/s (1e9 bytes), defined as in nccl-tests' PERFORMANCE.md."""

    __test__ = False

    id: str
    op: str
    dtype: str
    bytes: int
    root: int | None
    members: tuple[Member, ...]
    outcome: TestOutcome
    stage: str  # the last stage that all members reached
    wrong_values: int = 0
    seconds: float | None = None
    algbw_GBps: float | None = None  # noqa: N815  (the unit is part of the contract)
    busbw_GBps: float | None = None  # noqa: N815


@dataclass(frozen=True)
class RankView:
    """What one rank reported of one test: the last stage it reached, and its error text if it died there.

    `wrong_values` counts elements that differ from the exact expectation, `first_wrong` says where and what;
    `suspect_rank` is the contributor whose data was wrong, where the pattern tells.
    """

    member: Member
    stage: str
    error: str = ""
    seconds: float | None = None  # median over iterations of this rank's own time
    wrong_values: int = 0
    first_wrong: str = ""
    suspect_rank: int | None = None


@dataclass(frozen=True)
class Observation:
    """A test's result with every rank's own view; what the probe's checks judge."""

    test: TestResult
    ranks: tuple[RankView, ...]


@dataclass(frozen=True)
class Culprit:
    kind: str  # host | device | rail | link | partition | scale | system
    members: tuple[str, ...]  # "node01" or "node01/3"
    tests: tuple[str, ...]
    cause: str
