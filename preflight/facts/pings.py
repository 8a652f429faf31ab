"""The second round over the hosts: pings between device NICs, which follow from the facts of the first."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from preflight.facts import answer, hccn_tool
from preflight.facts.collect import POOL, Request, as_seen
from preflight.facts.output import Output
from preflight.facts.types import ClusterFacts, Hccn, HccnDevice, HostFacts, Missing, Ping
from preflight.model.cluster import Cluster, Fabric, Host
from preflight.transport.fanout import fan_out
from preflight.transport.programs import source
from preflight.transport.types import Progress, Transport

# No source says how long hccn_tool waits between its three packets: a second a ping is assumed where time is foretold,
# and six, two a packet, are granted.
PING_SECONDS = 1.0
PING_GRANTED = 6.0


def _addressed(facts: ClusterFacts) -> dict[str, dict[int, HccnDevice]]:
    """host → device index → device, of devices that have an address."""
    found = {}
    for name, host in facts.hosts.items():
        if isinstance(host, HostFacts) and isinstance(host.hccn, Hccn):
            found[name] = {device.index: device for device in host.hccn.devices if device.address.value}
    return found


def _partners(rail: Sequence[tuple[str, HccnDevice]], position: int, mesh: bool) -> Iterator[tuple[str, HccnDevice]]:
    """Whom the device at `position` of its rail pings: the next host in the ring and one host of every other leaf, or
    every host of the rail."""
    others = [*rail[position + 1 :], *rail[:position]]
    if mesh:
        yield from others
        return
    yield from others[:1]
    leaves = {rail[position][1].leaf.value, *(device.leaf.value for _, device in others[:1])}
    for name, device in others[1:]:
        if device.leaf.value not in leaves:
            leaves.add(device.leaf.value)
            yield name, device


def plan_pings(cluster: Cluster, facts: ClusterFacts, *, mesh: bool) -> tuple[Ping, ...]:
    """The pings worth doing, not done yet: from every device that has an address to its gateway (a switched fabric's,
    as the inventory or else the device itself says), and along its rail to the next host and to one host of every
    other leaf that LLDP knows of; with `mesh` to every host of the rail.

    Devices of one host are never pinged: on 910_93 the two dies of a chip do not reach each other over RoCE.
    """
    devices = _addressed(facts)
    inventory = {(host.name, device.index): device for host in cluster.hosts for device in host.devices}
    pings = []
    for name, own in devices.items():
        for index, device in sorted(own.items()):
            planned = inventory.get((name, index))
            gateway = str(planned.gateway) if planned and planned.gateway else device.gateway.value
            if gateway and cluster.fabric is Fabric.SWITCHED:
                pings.append(Ping(name, index, gateway, "gateway"))
            rail = [(host, of_host[index]) for host, of_host in devices.items() if index in of_host]
            position = [host for host, _ in rail].index(name)
            for partner, peer in _partners(rail, position, mesh):
                pings.append(Ping(name, index, str(peer.address.value), f"{partner}/{index}"))
    return tuple(pings)


def _longest(plan: Sequence[Ping]) -> int:
    """The most pings that one device has to do, one after the other; devices and hosts go at the same time."""
    return max(Counter((ping.host, ping.device) for ping in plan).values(), default=0)


def expected_seconds(plan: Sequence[Ping], pool: int = POOL) -> float:
    """How long the pings will take, by the rule of thumb of PING_SECONDS."""
    rounds = -(-len({ping.host for ping in plan}) // pool)
    return _longest(plan) * rounds * PING_SECONDS


def ping(
    cluster: Cluster,
    facts: ClusterFacts,
    transport: Transport,
    plan: Sequence[Ping],
    progress: Callable[[Progress], None] | None,
    *,
    pool: int = POOL,
) -> tuple[Ping, ...]:
    """Do the pings of `plan`, one round trip a host, and return them in its order with what came of them.

    A host that cannot be reached (any more) leaves its pings with an error. `facts` names the hosts worth trying.
    """
    of_host: dict[str, list[Ping]] = {}
    for planned in plan:
        of_host.setdefault(planned.host, []).append(planned)
    reachable = {name for name, host in facts.hosts.items() if isinstance(host, HostFacts)}
    hosts = [as_seen(host, facts) for host in cluster.hosts if host.name in of_host and host.name in reachable]
    request = Request(source("collect"), {"pings": _longest(plan) * PING_GRANTED}, {})

    def one(host: Host) -> tuple[Ping, ...]:
        mine = of_host[host.name]
        targets = [[planned.device, planned.address] for planned in mine]
        return answered(replace(request, words={"pings": targets}).ask(transport, host), tuple(mine))

    done = fan_out(hosts, one, pool=pool, deadline=request.timeout, progress=progress, phase="pings")
    results: dict[str, Iterator[Ping]] = {}
    for name, mine in of_host.items():
        outcome = done.get(name)
        if isinstance(outcome, tuple):
            results[name] = iter(outcome)
        else:
            why = str(outcome) if outcome else "the host gave no facts"
            results[name] = iter(replace(planned, error=why) for planned in mine)
    return tuple(next(results[planned.host]) for planned in plan)


def answered(found: answer.Sections | Missing, asked: tuple[Ping, ...]) -> tuple[Ping, ...]:
    """The pings of one host as they were asked for, with what came of each."""
    raw = answer.section(found, "pings", dict[int, dict[str, Output]])

    def one(ping: Ping) -> Ping:
        if isinstance(raw, Missing):
            return _with(ping, raw.error)
        output = raw.get(ping.device, {}).get(ping.address)
        if output is None:
            return _with(ping, "hccn_tool did not answer in time")
        result = answer.only("ping", output, hccn_tool.ping)
        if isinstance(result, str):
            return _with(ping, result)
        return _with(ping, result.error, result.sent, result.received, result.milliseconds)

    return tuple(one(ping) for ping in asked)


def _with(ping: Ping, error: str, sent: int = 0, received: int = 0, milliseconds: float | None = None) -> Ping:
    return Ping(ping.host, ping.device, ping.address, ping.peer, sent, received, milliseconds, error)
