"""Who listens on what in the port rehearsal, and who connects to whom. Pure.

Jobs start anywhere: the host that is the master of one is not of the next, and each of the probe's own pairs meets at a
port of its first host. So every host listens on all ports, and all are tried, most of all on the first.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from preflight.facts.connections import ports as ends
from preflight.facts.pings.tournament import opponent, steps
from preflight.model.cluster import Cluster
from preflight.model.ports import PortSet
from preflight.model.rehearsal import Attendance

MESH = 64  # hosts up to which every one connects to every other
OTHERS = 8  # hosts that each one meets beyond, besides the first
MOST_PORTS = 128  # on which a host listens

Targets = dict[str, tuple[int, ...]]  # host → its ports


def listened(cluster: Cluster) -> tuple[int, ...]:
    """The job's ports on which each host listens: all of them, or as many spread over all of them as is bearable."""
    every = tuple(cluster.ports)
    if len(every) <= MOST_PORTS:
        return every
    always = _always(cluster, every)
    others = sorted({*every} - {*always})
    places = MOST_PORTS - len(always)
    return tuple(sorted([*always, *(others[number * len(others) // places] for number in range(places))]))


def ephemeral_count(cluster: Cluster, backend: str) -> bool:
    """Whether ports that the kernel chooses have to be open."""
    return backend in ("gloo", "nccl") or cluster.listens_anywhere


def pairs(hosts: int) -> Iterator[tuple[int, int]]:
    """(source, target) by position: the full mesh; of many hosts all to the first, and each with `OTHERS` others."""
    if hosts <= MESH:
        yield from ((one, other) for one in range(hosts) for other in range(hosts) if one != other)
        return
    met = {(one, 0) for one in range(1, hosts)}
    for number in range(OTHERS):
        step = number * steps(hosts) // OTHERS
        met |= {(one, other) for one in range(hosts) if (other := opponent(one, step, hosts)) is not None}
    yield from sorted(met)


def visits(cluster: Cluster, attending: Sequence[Attendance]) -> dict[str, Targets]:
    """Source → what it tries. The named ports and the ends of ranges are tried by everybody, as are the ephemeral ones;
    the others are dealt out, so that each is tried by somebody. Where thousands come to the first host, the ends and
    the ephemeral ports are dealt out, too."""
    sources: dict[int, list[int]] = defaultdict(list)
    for source, target in pairs(len(attending)):
        sources[target].append(source)
    planned: dict[str, Targets] = {one.host: {} for one in attending}
    for target, coming in sources.items():
        there = attending[target]
        busy = len(coming) >= MESH
        always = [port for port in there.ports if port in cluster.port_names]
        ends = [port for port in _always(cluster, there.ports) if port not in always]
        rest = [port for port in there.ports if port not in always and port not in ends]
        for turn, source in enumerate(coming):
            if busy:
                ports = {*always, *_dealt([*ends, *rest], turn, len(coming)), *_dealt(there.ephemeral, turn, 1 << 16)}
            else:
                ports = {*always, *ends, *_dealt(rest, turn, len(coming)), *there.ephemeral}
            if ports:
                planned[attending[source].host][there.host] = tuple(sorted(ports))
    return planned


def note(cluster: Cluster, hosts: int) -> str:
    """What was left out, for the report; empty: nothing."""
    words = []
    if hosts > MESH:
        tried, all_ = sum(1 for _ in pairs(hosts)), hosts * (hosts - 1)
        words.append(f"{tried:,} of {all_:,} connections between hosts: all to the first, each to {OTHERS} others")
    if len(cluster.ports) > MOST_PORTS:
        words.append(f"{MOST_PORTS} of the job's {len(cluster.ports):,} ports")
    return f"port rehearsal: {'; '.join(words)}" if words else ""


def _always(cluster: Cluster, ports: Sequence[int]) -> list[int]:
    """The named ports, and the ends of ranges."""
    return sorted({port for port in ports if port in cluster.port_names} | {*ends(_set(ports))})


def _set(ports: Sequence[int]) -> PortSet:
    return PortSet.of((port, port) for port in ports)


def _dealt(ports: Sequence[int], turn: int, players: int) -> Sequence[int]:
    """The share of the player whose turn it is: every port goes to somebody, and everybody gets one."""
    return ports[turn % len(ports) :: players] if ports else ()


def told(planned: Mapping[str, Targets], attending: Sequence[Attendance]) -> dict[str, list[list[object]]]:
    """As each source is told: [[host, address, [ports]]]."""
    addresses = {one.host: one.address for one in attending}
    return {
        source: [[target, addresses[target], list(ports)] for target, ports in targets.items()]
        for source, targets in planned.items()
    }
