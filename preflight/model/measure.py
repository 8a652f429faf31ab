"""What the probe measured: tests over groups of devices."""

import re
from collections.abc import Mapping
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
    REFUSED = "refused"  # torch or the backend does not have it, as the views' error says; nobody's fault


class Scope(StrEnum):
    """Which devices make up a group."""

    DEVICE = "device"  # each alone: no network, no other rank
    HOST = "host"  # all of one host
    RAIL = "rail"  # all with the same index, one of each host
    PAIR = "pair"  # two, mostly along a rail, of neighbouring hosts
    ALL = "all"


# What a rank passes through, in order. "none": nobody started it. A rank that reports a stage has got through it: one
# at "store" knows where to meet and waits for the others to come, one at "communicator" has exchanged data with them.
# Only "warm-up" and "iteration" are reached when they begin, so that a rank which never entered a test is told from
# those inside it.
STAGES = (
    "none",
    "spawned",
    "python",
    "torch",
    "backend",
    "device",
    "store",
    "peers",
    "communicator",
    "warm-up",
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
    CUT = "cut"  # the time that the run was given was spent
    UNBORN = "unborn"  # never started, because the group was given up before


@dataclass(frozen=True)
class Member:
    host: str
    device: int
    rank: int

    @property
    def place(self) -> str:
        """As reports name it: "node01/3"."""
        return f"{self.host}/{self.device}"


@dataclass(frozen=True)
class TestResult:
    """One operation over one group. `bytes` is the S of nccl-tests' PERFORMANCE.md: the tensor of all_reduce,
    broadcast, reduce and send_recv, all ranks' pieces together of the others. `seconds` is the median over iterations
    of the maximum over ranks, `p99_seconds` their 99th percentile; bandwidths in GB/s (1e9 bytes), defined as there.

    The op `init` stands for the group coming together, up to its first exchange; it has no bytes and no bandwidth.
    Ids are `r<round>-<number>`, in the order in which the rounds were run; `scope` says who was in the group.
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
    scope: Scope = Scope.ALL
    reduction: str = ""  # sum | max | min | prod, of the operations that reduce
    form: str = "tensor"  # tensor | list | async | object
    p99_seconds: float | None = None
    line_rate: float | None = None  # share of the slowest member's line rate that busbw reached, where it is known
    tflops: float | None = None  # of a matrix product


@dataclass(frozen=True)
class Sending:
    """How a rank's NCCL sends, as its own log has it. `network`: IB, Socket, or a plugin's name; `ways`: of its
    channels: NET/IB, P2P, SHM …; `lines`: what it says of the choice."""

    network: str
    ways: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def between_hosts(self) -> str:
        """By which network: that of the channels, else the one that was chosen; "" where the log has neither."""
        named = [way.partition("/")[2] for way in self.ways if way.startswith("NET/")]
        return named[0] if named else self.network


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
    gave_up: bool = False  # its error is its backend's own time-out, and it came while others had not a word to say
    held: bool = False  # the worker could not be killed, or the driver held the device half a minute after it had been
    held_error: str = ""  # why nobody could look whether it did
    present: int | None = None  # ranks that it saw where they meet, itself included, while it waited for the others
    missing: tuple[int, ...] = ()  # ranks that it did not see there: the first ones, where they are many
    connecting: tuple[str, ...] = ()  # address:port to which it had no connection yet when it was ended
    logs: tuple[str, ...] = ()  # what matters of its backend's own log, oldest first
    on_host: bool = False  # its tensors were in the host's memory: the speed is no device's
    way: Sending | None = None  # told with the meeting, where the backend's log tells it

    @property
    def stands_still(self) -> bool:
        """Its process neither waited nor worked when it was late. One that has told its error was just ending."""
        return self.state not in ("", "S", "R") and not (self.state == "Z" and self.error)


@dataclass(frozen=True)
class Meeting:
    """Where the ranks of a group met."""

    backend: str  # hccl | nccl | gloo
    place: str  # of the store, "10.0.0.1:29500", or the path of a file
    nics: Mapping[str, str]  # host → name and address of the interface by which its ranks are reached


@dataclass(frozen=True)
class Observation:
    """A test's result with every rank's own view; what the probe's checks judge. `meeting` is None of what HCCL Test
    ran, and where nobody met."""

    test: TestResult
    ranks: tuple[RankView, ...]
    meeting: Meeting | None = None


_TROUBLE = (TestOutcome.FAIL, TestOutcome.HANG)


# HCCL's codes for what is wrong with the rank's own device: HCCP or a port held, its network port down, no memory. The
# others (EI0006, EI0015 …) say that a rank heard nothing from somebody else.
_OF_ITSELF = re.compile(r"\b(EJ000[1-3]|EI0011|EI0019|EI0020)\b")
_OF_HCCL = re.compile(r"\bE[A-Z]\d{4}\b")


def kept_waiting(observation: Observation) -> tuple[RankView, ...]:
    """The ranks of a failed or hanging test whom the others waited for, as far as the stages tell; else empty.

    In this order: those that vanished or stand still; those with an error of their own, before they met anybody or by
    a code that speaks of the rank's own device; the only one with an error, while the others waited until they were
    ended; those that had no word of their own when all others had given up or left; those that stayed behind the
    others, or that the others missed where all meet. When all ranks are equally far, nobody can be named from one test
    alone; of a rank by itself there is nobody else.
    """
    if observation.test.outcome not in _TROUBLE:
        return ()
    views = observation.ranks
    if len(views) == 1:
        return views
    vanished = (End.LOST, End.KILLED, End.EXITED)
    gone = tuple(view for view in views if view.end in vanished or view.stands_still)
    alone = STAGES.index("store")
    errors = tuple(view for view in views if view.end is End.ERROR)
    own_error = tuple(view for view in errors if STAGES.index(view.stage) < alone or _OF_ITSELF.search(view.error))
    waited = all(view.end is End.STOPPED for view in views if view.end is not End.ERROR)
    if not own_error and len(errors) == 1 < len(views) and waited and observation.test.outcome is TestOutcome.FAIL:
        own_error = errors
    last = min(STAGES.index(view.stage) for view in views)
    behind = tuple(view for view in views if STAGES.index(view.stage) == last)
    if len(behind) == len(views):
        missed = {rank for view in views for rank in view.missing}
        behind = tuple(view for view in views if view.member.rank in missed and view.present is None)
    return gone or own_error or _silent(views) or behind


def _silent(views: tuple[RankView, ...]) -> tuple[RankView, ...]:
    """Those that had to be killed, where all others left with their work done, or, being the most, by their backend's
    time-out: a rank that merely waits ends like these. Of HCCL only some do: its time-outs differ from step to step.
    """
    silent = tuple(view for view in views if view.end in (End.OVERDUE, End.STOPPED) and not view.error)
    others = [view for view in views if view not in silent]
    if others and all(view.end is End.CLOSED for view in others):
        return silent
    ended = all(view.end is End.CLOSED or (view.gave_up and not _OF_HCCL.search(view.error)) for view in others)
    return silent if ended and 2 * len(silent) < len(views) else ()


@dataclass(frozen=True)
class Located:
    """What tests with different partners name, before anybody has asked why.

    `kind` as of `Culprit`, or `intermittent host`, `intermittent device`; `outcome`: how most of the tests that say so
    ended; `tests`: their ids, those that convict, then those that acquit the partners; `direction`, of what is slow:
    sends | receives | both, empty where that is not known, seen from the first member.
    """

    kind: str
    members: tuple[str, ...]  # hosts, or devices as "node01/3"; of a partition one of its groups
    tests: tuple[str, ...]
    outcome: TestOutcome
    direction: str = ""


@dataclass(frozen=True)
class TimeLimit:
    """The budget of a probe, in seconds, and what it has done to the probe's deadlines.

    `enough`: the budget in which steps could take twice as long. `shortened`: steps had less time than usual.
    """

    budget: float
    enough: float
    shortened: bool


@dataclass(frozen=True)
class Culprit:
    """Who is at fault, and what that is, for programs: a finding in words carries it."""

    kind: str  # host | device | rail | link | partition | scale | system
    members: tuple[str, ...]  # "node01" or "node01/3"
    tests: tuple[str, ...]
    cause: str

    @property
    def hosts(self) -> frozenset[str]:
        """The members, or whose devices they are."""
        return frozenset(member.partition("/")[0] for member in self.members)
