"""What the probe measured: tests over groups of devices."""

import re
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
    UNCHECKED = "unchecked"  # it ran, and nobody compared its values


# What a rank passes through, in order. "none": nobody started it. A rank that reports a stage has got through it: one
# at "store" knows where to meet and waits for the others to come, one at "communicator" has exchanged data with them.
# Only "iteration" is reached when it begins, so that a rank which never entered a test is told from those inside it.
STAGES = (
    "none",
    "spawned",
    "torch",
    "backend",
    "device",
    "store",
    "peers",
    "communicator",
    "iteration",
    "values",
    "closed",
)


class End(StrEnum):
    """How a rank's process ended."""

    CLOSED = "closed"  # by itself, with its work done
    ERROR = "error"  # an exception; its text is the view's `error`
    EXITED = "exited"  # it left without a word
    KILLED = "killed"  # by a signal that preflight did not send
    OVERDUE = "overdue"  # it was past its deadline, so its agent killed it
    STOPPED = "stopped"  # killed because others of its group had failed or were overdue
    LOST = "lost"  # its host is gone: not reached, no torch, connection broken
    UNBORN = "unborn"  # never started, because the group was given up before


@dataclass(frozen=True)
class Member:
    host: str
    device: int
    rank: int


@dataclass(frozen=True)
class TestResult:
    """One collective over one group. `bytes` is the tensor's size per rank, `seconds` the median over iterations of
    the maximum over ranks; bandwidths in GB/s (1e9 bytes), defined as in nccl-tests' PERFORMANCE.md.

    The op `init` stands for the group coming together, up to its first exchange; it has no bytes and no bandwidth.
    Ids are `r<round>-<number>`: round 1 is all devices, round 2 the rails (pairs of neighbouring hosts, same device),
    later rounds try again those that failed or were slow, with other partners and then with each other.
    """

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
    end: End | None = None
    state: str = (
        ""  # the process's state when it was killed for lateness, as in /proc/PID/stat: T stopped, D in a driver
    )


@dataclass(frozen=True)
class Observation:
    """A test's result with every rank's own view; what the probe's checks judge."""

    test: TestResult
    ranks: tuple[RankView, ...]


_SLEEPING = ("", "S", "R")  # states of a process that merely waits, or works
_TROUBLE = (TestOutcome.FAIL, TestOutcome.HANG)


# HCCL's codes for what is wrong with the rank's own device: HCCP or a port held, its network port down, no memory. The
# others (EI0006, EI0015 …) say that a rank heard nothing from somebody else.
_OF_ITSELF = re.compile(r"\b(EJ000[1-3]|EI0011|EI0019|EI0020)\b")


def kept_waiting(observation: Observation) -> tuple[RankView, ...]:
    """The ranks of a failed or hanging test whom the others waited for, as far as the stages tell; else empty.

    In this order: those that vanished or stand still; those with an error of their own, before they met anybody or by
    a code that speaks of the rank's own device; the only one with an error, while the others waited until they were
    ended; those that stayed behind the others. When all ranks are equally far, nobody can be named from one test alone.
    """
    if observation.test.outcome not in _TROUBLE:
        return ()
    views = observation.ranks
    vanished = (End.LOST, End.KILLED, End.EXITED)
    gone = tuple(view for view in views if view.end in vanished or view.state not in _SLEEPING)
    alone = STAGES.index("store")
    errors = tuple(view for view in views if view.end is End.ERROR)
    own_error = tuple(view for view in errors if STAGES.index(view.stage) < alone or _OF_ITSELF.search(view.error))
    waited = all(view.end is End.STOPPED for view in views if view.end is not End.ERROR)
    if not own_error and len(errors) == 1 < len(views) and waited and observation.test.outcome is TestOutcome.FAIL:
        own_error = errors
    last = min(STAGES.index(view.stage) for view in views)
    behind = tuple(view for view in views if STAGES.index(view.stage) == last)
    return gone or own_error or (behind if len(behind) < len(views) else ())


@dataclass(frozen=True)
class Culprit:
    kind: str  # host | device | rail | link | partition | scale | system
    members: tuple[str, ...]  # "node01" or "node01/3"
    tests: tuple[str, ...]
    cause: str
