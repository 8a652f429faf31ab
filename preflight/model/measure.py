"""Tests of the probe over groups of devices, their results and observations."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class TestOutcome(StrEnum):
    """End of a probe test. The names are those of the localiser's `Outcome`, in lower case."""

    __test__ = False  # not a pytest class

    PASS = "pass"
    FAIL = "fail"
    HANG = "hang"
    SLOW = "slow"
    WRONG_DATA = "wrong_data"
    NOT_RUN = "not_run"
    UNCHECKED = "unchecked"  # it ran, and its values were not compared
    REFUSED = "refused"  # torch or the backend does not have it, as the views' error says; no fault


class Scope(StrEnum):
    """Devices that make up a group."""

    DEVICE = "device"  # each alone: no network, no other rank
    HOST = "host"  # all of one host
    RAIL = "rail"  # all with the same index, one of each host
    PAIR = "pair"  # two, mostly along a rail, of neighbouring hosts
    ALL = "all"


# Stages of a rank, in order. "none": it was not started. A rank reports a stage when it has completed it: at "store" it
# knows where to meet and waits for the others, at "communicator" it has exchanged data with them. Only "warm-up" and
# "iteration" are reported when they begin. So a rank that never entered a test differs from those inside it.
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
    """End of a rank's process."""

    CLOSED = "closed"  # by itself, after its work
    ERROR = "error"  # an exception; its text is the view's `error`
    EXITED = "exited"  # without a message
    KILLED = "killed"  # by a signal that preflight did not send
    OVERDUE = "overdue"  # killed by its agent after its deadline
    STOPPED = "stopped"  # killed because others of its group had failed or were overdue
    LOST = "lost"  # its host is gone: not reached, no torch, connection broken
    CUT = "cut"  # the budget of the run was spent
    UNBORN = "unborn"  # never started, because its group was given up before


@dataclass(frozen=True)
class Member:
    host: str
    device: int
    rank: int

    @property
    def place(self) -> str:
        """Host and device as in reports: "node01/3"."""
        return f"{self.host}/{self.device}"


@dataclass(frozen=True)
class TestResult:
    """One operation over one group.

    `bytes` is the S of nccl-tests' PERFORMANCE.md: the tensor of all_reduce, broadcast, reduce and send_recv, and all
    ranks' pieces together for the others. `seconds` is the median over iterations of the maximum over ranks, and
    `p99_seconds` is their 99th percentile. Bandwidths are in GB/s (1e9 bytes), as defined there.

    The op `init` is the start of the group up to its first exchange. It has no bytes and no bandwidth. Ids are
    `r<round>-<number>`, in the order of the rounds.
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
    line_rate: float | None = None  # share of the slowest member's line rate that busbw reached, if that is known
    tflops: float | None = None  # of a matrix product

    @property
    def places(self) -> frozenset[str]:
        """The members' devices: "node01/3"."""
        return frozenset(member.place for member in self.members)

    @property
    def round(self) -> str:
        return self.id.partition("-")[0]


@dataclass(frozen=True)
class Sending:
    """Transport of a rank's NCCL, from its log.

    `network` is IB, Socket, or a plugin's name. `ways` are its channels' transports: NET/IB, P2P, SHM … `lines` are the
    log lines about the choice.
    """

    network: str
    ways: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def between_hosts(self) -> str:
        """The network of the channels, else the chosen one, "" if the log has neither."""
        networks = [way.partition("/")[2] for way in self.ways if way.startswith("NET/")]
        return networks[0] if networks else self.network


@dataclass(frozen=True)
class RankView:
    """One rank's view of one test: the last stage it reached, and its error text if it died there.

    `wrong_values` counts elements that differ from the exact expectation, and `first_wrong` describes the first.
    `suspect_rank` is the contributor of the wrong data, if the pattern shows it.
    """

    member: Member
    stage: str
    error: str = ""
    seconds: float | None = None  # median over iterations of this rank's own time
    wrong_values: int = 0
    first_wrong: str = ""
    suspect_rank: int | None = None
    end: End | None = None
    state: str = ""  # of the process when it was killed after its deadline (/proc/PID/stat): T stopped, D in a driver
    gave_up: bool = False  # its error is its backend's own timeout, while others had not reported anything
    held: bool = False  # the worker could not be killed, or the driver held the device half a minute after that
    held_error: str = ""  # why `held` could not be determined
    present: int | None = None  # ranks that it saw at the meeting place, itself included, while it waited
    missing: tuple[int, ...] = ()  # ranks that it did not see there, only the first of many
    connecting: tuple[str, ...] = ()  # address:port to which it had no connection yet when it was ended
    logs: tuple[str, ...] = ()  # relevant lines of its backend's log, oldest first
    on_host: bool = False  # its tensors were in the host's memory, so the speed is not the device's
    way: Sending | None = None  # reported with the meeting, if the backend's log has it

    @property
    def is_silent(self) -> bool:
        """True if it had to be ended, and had not reported an error."""
        return self.end in (End.OVERDUE, End.STOPPED) and not self.error

    @property
    def stands_still(self) -> bool:
        """True if its process neither waited nor worked at its deadline. One that has reported an error was ending."""
        return self.state not in ("", "S", "R") and not (self.state == "Z" and self.error)


@dataclass(frozen=True)
class Meeting:
    """Meeting place of the ranks of a group."""

    backend: str  # hccl | nccl | gloo
    place: str  # of the store, "10.0.0.1:29500", or the path of a file
    nics: Mapping[str, str]  # host → name and address of the interface by which its ranks are reached


@dataclass(frozen=True)
class Observation:
    """A test's result with every rank's view: the input of the probe's checks.

    `meeting` is None for HCCL Test, and if no ranks met.
    """

    test: TestResult
    ranks: tuple[RankView, ...]
    meeting: Meeting | None = None


_TROUBLE = (TestOutcome.FAIL, TestOutcome.HANG)


# HCCL's codes for faults of the rank's own device: HCCP or a port held, its network port down, no memory. The others
# (EI0006, EI0015 …) mean that a rank heard nothing from another one.
_OWN_FAULT = re.compile(r"\b(EJ000[1-3]|EI0011|EI0019|EI0020)\b")
_HCCL_CODE = re.compile(r"\bE[A-Z]\d{4}\b")


def kept_waiting(observation: Observation) -> tuple[RankView, ...]:
    """Return the ranks of a failed or hanging test that the others waited for, as far as the stages show it.

    The first of these groups that is not empty counts:

    1. ranks that vanished or stand still
    2. ranks with their own error: before they met another rank, or with a code about their own device
    3. the only rank with an error, if the others waited until they were ended
    4. ranks without a message, after all others had given up or left
    5. ranks that stayed behind the others, or that the others did not see at the meeting place

    If all ranks are at the same stage, one test alone identifies none. A rank that is alone in its group is the answer.
    """
    if observation.test.outcome not in _TROUBLE:
        return ()
    views = observation.ranks
    if len(views) == 1:
        return views
    groups = (_vanished(views), _with_own_error(views), _only_error(observation), _silent(views), _behind(views))
    return next((group for group in groups if group), ())


def _vanished(views: tuple[RankView, ...]) -> tuple[RankView, ...]:
    ends = (End.LOST, End.KILLED, End.EXITED)
    return tuple(view for view in views if view.end in ends or view.stands_still)


def _with_own_error(views: tuple[RankView, ...]) -> tuple[RankView, ...]:
    met = STAGES.index("store")
    errors = (view for view in views if view.end is End.ERROR)
    return tuple(view for view in errors if STAGES.index(view.stage) < met or _OWN_FAULT.search(view.error))


def _only_error(observation: Observation) -> tuple[RankView, ...]:
    """Return the only rank with an error, if all others were stopped while they waited."""
    errors = tuple(view for view in observation.ranks if view.end is End.ERROR)
    waited = all(view.end is End.STOPPED for view in observation.ranks if view.end is not End.ERROR)
    return errors if len(errors) == 1 and waited and observation.test.outcome is TestOutcome.FAIL else ()


def _silent(views: tuple[RankView, ...]) -> tuple[RankView, ...]:
    """Return the ranks that had to be killed, if all others finished their work, or most gave up by a timeout.

    A rank that merely waits ends like these. HCCL's timeouts differ from step to step, so they do not count.
    """
    silent = tuple(view for view in views if view.is_silent)
    ended = [view for view in views if not view.is_silent]
    if {view.end for view in ended} == {End.CLOSED}:
        return silent
    return silent if all(map(_ended_itself, ended)) and 2 * len(silent) < len(views) else ()


def _ended_itself(view: RankView) -> bool:
    return view.end is End.CLOSED or (view.gave_up and not _HCCL_CODE.search(view.error))


def _behind(views: tuple[RankView, ...]) -> tuple[RankView, ...]:
    """Return the ranks at the earliest stage, or of equal ranks those that the others missed at the meeting place."""
    earliest = min(STAGES.index(view.stage) for view in views)
    behind = tuple(view for view in views if STAGES.index(view.stage) == earliest)
    if len(behind) < len(views):
        return behind
    missed = {rank for view in views for rank in view.missing}
    return tuple(view for view in views if view.member.rank in missed and view.present is None)


@dataclass(frozen=True)
class Located:
    """A culprit by tests with different partners, before its cause is known.

    `kind` is that of `Culprit`, or `intermittent host`, `intermittent device`. `outcome` is that of most of its failed
    tests. `tests` are the ids of its failed tests, then of those that rule out the partners. `direction` of something
    slow is sends | receives | both, as seen from the first member, "" if not known.
    """

    kind: str
    members: tuple[str, ...]  # hosts, or devices as "node01/3"; of a partition one of its groups
    tests: tuple[str, ...]
    outcome: TestOutcome
    direction: str = ""


@dataclass(frozen=True)
class TimeLimit:
    """The budget of a probe, in seconds, and its effect on the probe's deadlines.

    With the budget `enough`, steps could take twice as long. `shortened`: steps had less time than usual.
    """

    budget: float
    enough: float
    shortened: bool


@dataclass(frozen=True)
class Culprit:
    """The object at fault, for programs: a finding in words carries it."""

    kind: str  # host | device | rail | link | partition | scale | system
    members: tuple[str, ...]  # "node01" or "node01/3"
    tests: tuple[str, ...]
    cause: str

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts among the members, and the hosts of the devices among them."""
        return frozenset(member.partition("/")[0] for member in self.members)
