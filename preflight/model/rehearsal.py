"""Results of the port rehearsal, in which hosts listen on the job's ports and connect to each other's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class How(StrEnum):
    """Failure of a connection to a port on which preflight listened."""

    TIMEOUT = "timeout"  # no answer
    REFUSED = "refused"  # reset, although we listen
    REJECTED = "rejected"  # a firewall or router answered, `by` its address if it gave one
    MUTE = "mute"  # accepted, and then no data
    STRANGER = "stranger"  # accepted, and another program answered
    ERROR = "error"  # not tried, see `error`


@dataclass(frozen=True)
class Taken:
    """A port of the job that another program holds on the host."""

    port: int
    listening: bool  # False: it is the local end of a connection
    process: str = ""  # empty: not visible to the login user
    pid: int | None = None


@dataclass(frozen=True)
class Attendance:
    """One host's part in the rehearsal. `error`: why it took no part, or did not report its connections."""

    host: str
    address: str = ""  # where it listened, and where ranks of other hosts reach it
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
    """Connections from `source` to `target`, and those of them that failed."""

    source: str
    target: str
    ports: tuple[int, ...]
    blocked: tuple[Blocked, ...] = ()

    @property
    def dead(self) -> frozenset[int]:
        """The ports that were tried without success."""
        return frozenset(port for part in self.blocked if part.how is not How.ERROR for port in part.ports)

    @property
    def tried(self) -> frozenset[int]:
        return frozenset(self.ports) - {port for part in self.blocked if part.how is How.ERROR for port in part.ports}

    @property
    def in_vain(self) -> bool:
        """True if all connections failed."""
        return bool(self.dead) and self.dead == self.tried


@dataclass(frozen=True)
class Rehearsal:
    """The whole rehearsal. `backend` decides whether ephemeral ports count. `note`: parts that were left out."""

    backend: str
    hosts: tuple[Attendance, ...]
    visits: tuple[Visit, ...]
    note: str = ""

    @property
    def unreached(self) -> frozenset[str]:
        """Hosts that no other host reached, or that reached no other, on the ports that ranks of the backend need.

        Ranks meet on the job's ports. Over gloo and nccl they also connect on ephemeral ports. A group with such a host
        only waits.
        """
        needed = [{host.host: frozenset(host.ports) for host in self.hosts}]
        if self.backend in ("gloo", "nccl"):
            needed.append({host.host: frozenset(host.ephemeral) for host in self.hosts})
        return frozenset().union(*map(self._unreached_on, needed))

    def _unreached_on(self, needed: Mapping[str, frozenset[int]]) -> frozenset[str]:
        """Return the hosts that are unreached on the ports that each host needs, or do not reach others on these."""
        failed: dict[tuple[str, str], bool] = {}  # source, target → whether all needed ports failed
        for visit in self.visits:
            if ports := visit.tried & needed.get(visit.target, frozenset()):
                failed[visit.source, visit.target] = ports <= visit.dead
        unreachable = _always(failed, lambda pair: pair[1])
        to_reachable = {pair: value for pair, value in failed.items() if pair[1] not in unreachable}
        return unreachable | _always(to_reachable, lambda pair: pair[0])


def _always(failed: Mapping[tuple[str, str], bool], end: Callable[[tuple[str, str]], str]) -> frozenset[str]:
    """Return the hosts at this end of the pairs for which every pair failed."""
    return frozenset(map(end, failed)) - {end(pair) for pair, value in failed.items() if not value}
