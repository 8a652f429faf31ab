"""What came of the port rehearsal: every host listened on the ports that the job will use, and others connected."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class How(StrEnum):
    """Why a connection to a port on which we listen did not do."""

    TIMEOUT = "timeout"  # no answer at all
    REFUSED = "refused"  # reset, although we listen
    REJECTED = "rejected"  # a firewall or router answered, `by` its address where it said so
    MUTE = "mute"  # accepted, and then no word
    STRANGER = "stranger"  # accepted, and somebody else answered
    ERROR = "error"  # it could not be tried, see `error`


@dataclass(frozen=True)
class Taken:
    """A port of the job that somebody else holds on the host."""

    port: int
    listening: bool  # False: it is the local end of a connection
    process: str = ""  # empty: not visible to the user who looked
    pid: int | None = None


@dataclass(frozen=True)
class Attendance:
    """One host's part. `error`: why it took none, or did not say what came of its connections."""

    host: str
    address: str = ""  # where ranks of other hosts reach it, and where it listened
    ports: tuple[int, ...] = ()  # the job's that it listened on
    ephemeral: tuple[int, ...] = ()  # of ip_local_port_range, as gloo and NCCL get them
    taken: tuple[Taken, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Blocked:
    ports: tuple[int, ...]
    how: How
    by: str = ""
    error: str = ""


@dataclass(frozen=True)
class Visit:
    """What `source` tried of `target`, and what did not come through."""

    source: str
    target: str
    ports: tuple[int, ...]
    blocked: tuple[Blocked, ...] = ()

    @property
    def dead(self) -> frozenset[int]:
        """The ports that were tried in vain."""
        return frozenset(port for one in self.blocked if one.how is not How.ERROR for port in one.ports)

    @property
    def tried(self) -> frozenset[int]:
        return frozenset(self.ports) - {port for one in self.blocked if one.how is How.ERROR for port in one.ports}

    @property
    def in_vain(self) -> bool:
        """Whether nothing came through."""
        return bool(self.dead) and self.dead == self.tried


@dataclass(frozen=True)
class Rehearsal:
    """`backend`: over which the collectives run, so that ephemeral ports count or not. `note`: what was left out."""

    backend: str
    hosts: tuple[Attendance, ...]
    visits: tuple[Visit, ...]
    note: str = ""

    @property
    def unreached(self) -> frozenset[str]:
        """The hosts that nobody reached on what ranks of the backend connect to (ephemeral ports for gloo and nccl,
        else the job's), or that reached nobody else there. Whoever is in a group with one of them only waits."""
        many = self.backend in ("gloo", "nccl")
        needed = {one.host: frozenset(one.ephemeral if many else one.ports) for one in self.hosts}
        vain: dict[tuple[str, str], bool] = {}
        for visit in self.visits:
            if ports := visit.tried & needed.get(visit.target, frozenset()):
                vain[visit.source, visit.target] = ports <= visit.dead
        mute = _always(vain, lambda pair: pair[1])
        return mute | _always({pair: dead for pair, dead in vain.items() if pair[1] not in mute}, lambda pair: pair[0])


def _always(vain: Mapping[tuple[str, str], bool], of: Callable[[tuple[str, str]], str]) -> frozenset[str]:
    """The hosts all of whose connections were in vain."""
    return frozenset(of(pair) for pair in vain) - {of(pair) for pair, dead in vain.items() if not dead}
