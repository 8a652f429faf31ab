"""Rounds over the hosts: facts in one round trip a host, then the pings between devices that follow from them."""

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from preflight.facts import answer, arrivals
from preflight.facts.hccn_tool import READERS
from preflight.facts.rootless import without_root
from preflight.facts.types import ClusterFacts, Hccn, HccnDevice, HostFacts, Missing, Os, Ping, Unreachable
from preflight.model.cluster import Cluster, Fabric, Host
from preflight.model.ports import PortSet
from preflight.transport.bootstrap import host_argv
from preflight.transport.fanout import fan_out
from preflight.transport.programs import source
from preflight.transport.types import Program, Progress, Transport, TransportError, Trouble

POOL = 32  # hosts in flight
# What a section may take on its host. `job` may have to start a container; hccn_tool is called 9 times a device.
HOST_SECTIONS = {
    "os": 5.0,
    "sysctl": 5.0,
    "sockets": 10.0,
    "network": 10.0,
    "firewall": 10.0,
    "connects": 10.0,
    "names": 10.0,
    "environment": 5.0,
    "job": 30.0,
}
NPU_SECTIONS = {"driver": 5.0, "hccn": 30.0, "hccn_conf": 5.0, "npu_smi": 20.0}
WAY_SECONDS = 40.0  # what connecting, logging in and a busy host may take on top
# No source says how long hccn_tool waits between its three packets: a second a ping is assumed where time is foretold,
# and six, two a packet, are granted.
PING_SECONDS = 1.0
PING_GRANTED = 6.0


@dataclass(frozen=True)
class Seen:
    """What one host showed: the facts, and the tools' own output that they were read from."""

    facts: HostFacts
    raw: answer.Sections | Missing


@dataclass(frozen=True)
class _Request:
    """What the collector is asked (see there). `deadlines`: section → seconds."""

    source: str
    deadlines: dict[str, float]
    words: dict[str, object]

    @property
    def timeout(self) -> float:
        """Seconds for the whole round trip."""
        return max(self.deadlines.values()) + WAY_SECONDS

    def ask(self, transport: Transport, host: Host) -> answer.Sections | Missing:
        """One round trip. Raises TransportError."""
        marker = "preflight-" + secrets.token_hex(8)
        payload = json.dumps({"marker": marker, "deadlines": self.deadlines, **self.words}).encode()
        program = Program(self.source, payload)
        return answer.sections(transport.run(host, program, timeout=self.timeout), marker)


def _facts_request(cluster: Cluster, ports: PortSet, sections: Sequence[str], readings: Sequence[str]) -> _Request:
    """What every host is asked; its own device ids come on top."""
    probe = cluster.probe
    job = Program(source("job_view"), b"", probe.python, probe.setup, probe.wrapper, probe.user, isolated=False)
    useful = (name for name in (*READERS, "ip") if name != "lldp" or cluster.fabric is Fabric.SWITCHED)
    queries = [name for name in useful if not readings or name in readings]
    words: dict[str, object] = {
        "ports": ports.ranges,
        "names": [host.name for host in cluster.hosts],
        "hosts_file": cluster.setup.hosts_file,
        "limits": bool(cluster.setup.memlock or cluster.setup.nofile),
        "readings": [[name, "status" if name == "cfg" else "-g"] for name in queries],
        "job": {
            "source": job.source,
            "npu": cluster.product.is_npu,
            "python": job.python,
            "argv": host_argv(job, sudo=False),  # the collector is root already where the host asks for sudo
            "elsewhere": bool(job.setup or job.wrapper or job.user),
        },
    }
    deadlines = HOST_SECTIONS | (NPU_SECTIONS if cluster.product.is_npu else {})
    if sections:
        deadlines = {name: deadlines[name] for name in sections}
    return _Request(source("collect"), deadlines, words)


def _unreachable(error: TransportError) -> Unreachable:
    return Unreachable(error.trouble.value, error.summary, error.remedy)


def _without_sudo(host: Host) -> Host:
    return replace(host, ssh=replace(host.ssh, sudo=False))


def look(
    cluster: Cluster,
    hosts: Sequence[Host],
    transport: Transport,
    *,
    progress: Callable[[Progress], None] | None,
    ports: PortSet,
    pool: int = POOL,
    sections: Sequence[str] = (),
    readings: Sequence[str] = (),
) -> dict[str, Seen | Unreachable]:
    """Look at every host in one round trip: its facts together with what they were read from.

    `ports`: the job ports whose sockets are wanted; `pool`: hosts in flight; `sections`: of the collector, if not all
    are wanted (what comes of the others is `Missing`); `readings`: of hccn_tool, the same. Where sudo refuses, the host
    is looked at without root, and its `os` says why. Raises nothing that a host could cause.
    """
    request = _facts_request(cluster, ports, sections, readings)
    connects = {"ports": arrivals.ports(ports), "ephemeral": cluster.listens_anywhere}
    targets = {host.name: arrivals.targets(cluster, hosts, host.name) for host in hosts}

    def one(host: Host) -> Seen:
        devices = tuple(device.index for device in host.devices)
        own = {"devices": devices, "connects": {**connects, "targets": targets[host.name]}}
        asked = replace(request, words={**request.words, **own})

        def seen(host: Host, refused: Unreachable | None) -> Seen:
            sent = time.time()
            raw = asked.ask(transport, host)
            received = time.time()
            facts = answer.host_facts(raw, cluster.product, devices, sent=sent, received=received)
            return Seen(without_root(facts, refused), raw)

        try:
            return seen(host, None)
        except TransportError as error:
            if error.trouble is not Trouble.SUDO:
                raise
            return seen(_without_sudo(host), _unreachable(error))

    seen = fan_out(hosts, one, pool=pool, deadline=request.timeout, progress=progress, phase="facts")
    known = _with_arrivals(seen, targets) if "connects" in request.deadlines else seen
    return {name: _unreachable(it) if isinstance(it, TransportError) else it for name, it in known.items()}


def _with_arrivals(
    seen: Mapping[str, Seen | TransportError], targets: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, Seen | TransportError]:
    """What each host tried of the others, put where it arrived."""
    tried = {name: answer.tried(it.raw) for name, it in seen.items() if isinstance(it, Seen)}
    came = arrivals.arrived(tried, {name: [host for host, _ in asked] for name, asked in targets.items()})

    def whole(name: str, it: Seen) -> Seen:
        return replace(it, facts=replace(it.facts, arrivals=came[name])) if name in came else it

    return {name: whole(name, it) if isinstance(it, Seen) else it for name, it in seen.items()}


def collect(
    cluster: Cluster,
    hosts: Sequence[Host],
    transport: Transport,
    *,
    progress: Callable[[Progress], None] | None,
    ports: PortSet,
    pool: int = POOL,
    sections: Sequence[str] = (),
    readings: Sequence[str] = (),
) -> ClusterFacts:
    """The facts of `hosts`, in their order; see `look`."""
    seen = look(
        cluster, hosts, transport, progress=progress, ports=ports, pool=pool, sections=sections, readings=readings
    )
    return ClusterFacts({name: it.facts if isinstance(it, Seen) else it for name, it in seen.items()})


def _as_seen(host: Host, facts: ClusterFacts) -> Host:
    """Without sudo where it has refused already."""
    found = facts.hosts[host.name]
    refused = isinstance(found, HostFacts) and isinstance(found.os, Os) and found.os.refused
    return _without_sudo(host) if refused else host


# The second round: pings between device NICs.


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
    hosts = [_as_seen(host, facts) for host in cluster.hosts if host.name in of_host and host.name in reachable]
    request = _Request(source("collect"), {"pings": _longest(plan) * PING_GRANTED}, {})

    def one(host: Host) -> tuple[Ping, ...]:
        mine = of_host[host.name]
        targets = [[planned.device, planned.address] for planned in mine]
        return answer.pings(replace(request, words={"pings": targets}).ask(transport, host), tuple(mine))

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
