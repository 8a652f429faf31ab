"""Ports on which hosts listen in the port rehearsal, and connections between the hosts. Pure.

Jobs start anywhere: the master of one job is not that of the next, and each of the probe's own pairs meets at a port of
its first host. So every host listens on all ports, and all ports are tried, most of all on the first host.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from preflight.facts.connections import ports as range_ends
from preflight.facts.pings.tournament import opponent, steps
from preflight.model.cluster import Cluster
from preflight.model.ports import PortSet
from preflight.model.rehearsal import Attendance

MESH = 64  # hosts up to which each connects to every other
OTHERS = 8  # hosts that each one of more hosts connects to, besides the first
MOST_PORTS = 128  # on which a host listens

Targets = dict[str, tuple[int, ...]]  # host → its ports


def listening_ports(cluster: Cluster) -> tuple[int, ...]:
    """Return the job's ports on which each host listens: all, or at most `MOST_PORTS`, evenly spread."""
    all_ports = tuple(cluster.ports)
    if len(all_ports) <= MOST_PORTS:
        return all_ports
    always = _always(cluster, all_ports)
    candidates = sorted({*all_ports} - {*always})
    places = MOST_PORTS - len(always)
    return tuple(sorted([*always, *(candidates[number * len(candidates) // places] for number in range(places))]))


def ephemeral_count(cluster: Cluster, backend: str) -> bool:
    """Return whether ports that the kernel chooses have to be open."""
    return backend in ("gloo", "nccl") or cluster.listens_anywhere


def pairs(hosts: int) -> Iterator[tuple[int, int]]:
    """Yield (source, target) by position.

    Up to `MESH` hosts form a full mesh. If there are more, all connect to the first, and each to `OTHERS` others.
    """
    if hosts <= MESH:
        yield from ((source, target) for source in range(hosts) for target in range(hosts) if source != target)
        return
    host_pairs = {(source, 0) for source in range(1, hosts)}
    for number in range(OTHERS):
        step = number * steps(hosts) // OTHERS
        host_pairs |= {
            (source, target) for source in range(hosts) if (target := opponent(source, step, hosts)) is not None
        }
    yield from sorted(host_pairs)


def visits(cluster: Cluster, attending: Sequence[Attendance]) -> dict[str, Targets]:
    """Return source → ports that it tries, by target.

    Every source tries the named ports, the ends of ranges and the ephemeral ports. The other ports are dealt out, so
    that at least one source tries each. If at least `MESH` sources connect to a target, the ends and the ephemeral
    ports are dealt out, too.
    """
    sources: dict[int, list[int]] = defaultdict(list)
    for source, target in pairs(len(attending)):
        sources[target].append(source)
    targets_by_source: dict[str, Targets] = {attendance.host: {} for attendance in attending}
    for target, incoming in sources.items():
        listener = attending[target]
        for source, ports in zip(incoming, _shares(cluster, listener, len(incoming)), strict=True):
            if ports:
                targets_by_source[attending[source].host][listener.host] = ports
    return targets_by_source


def _shares(cluster: Cluster, listener: Attendance, sources: int) -> Iterator[tuple[int, ...]]:
    """Yield the ports of a listener that each of its sources tries, in turn."""
    named = [port for port in listener.ports if port in cluster.port_names]
    ends = [port for port in _always(cluster, listener.ports) if port not in named]
    other_ports = [port for port in listener.ports if port not in named and port not in ends]
    for turn in range(sources):
        if sources >= MESH:
            dealt = (*_deal([*ends, *other_ports], turn, sources), *_deal(listener.ephemeral, turn, 1 << 16))
            yield tuple(sorted({*named, *dealt}))
        else:
            yield tuple(sorted({*named, *ends, *_deal(other_ports, turn, sources), *listener.ephemeral}))


def note(cluster: Cluster, hosts: int) -> str:
    """Return the parts that were left out, for the report, or nothing if all were tried."""
    words = []
    if hosts > MESH:
        tried_pairs, all_pairs = sum(1 for _ in pairs(hosts)), hosts * (hosts - 1)
        words.append(
            f"{tried_pairs:,} of {all_pairs:,} connections between hosts were tried (all hosts to the first host, each "
            f"host to {OTHERS} others)"
        )
    if len(cluster.ports) > MOST_PORTS:
        words.append(f"{MOST_PORTS} of the {len(cluster.ports):,} job ports were tried")
    return f"port rehearsal: {' and '.join(words)}" if words else ""


def _always(cluster: Cluster, ports: Sequence[int]) -> list[int]:
    """Return the named ports, and the ends of ranges."""
    return sorted({port for port in ports if port in cluster.port_names} | {*range_ends(_set(ports))})


def _set(ports: Sequence[int]) -> PortSet:
    return PortSet.of((port, port) for port in ports)


def _deal(ports: Sequence[int], turn: int, players: int) -> Sequence[int]:
    """Return the share of the player at this turn. Every port goes to a player, and every player gets at least one."""
    return ports[turn % len(ports) :: players] if ports else ()


def targets_to_send(planned: Mapping[str, Targets], attending: Sequence[Attendance]) -> dict[str, list[list[object]]]:
    """Return the visits of each source in the form that is sent to it: [[host, address, [ports]]]."""
    addresses = {attendance.host: attendance.address for attendance in attending}
    return {
        source: [[target, addresses[target], list(ports)] for target, ports in targets.items()]
        for source, targets in planned.items()
    }
