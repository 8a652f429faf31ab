"""The second round over the hosts: the pings of a plan, one round trip a host."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from preflight.facts.answers import npu
from preflight.facts.answers.host import Sections, section
from preflight.facts.collect import POOL, Request, as_seen
from preflight.facts.output import Output
from preflight.facts.parsers.ascend import hccn_tool
from preflight.facts.types import ClusterFacts, HostFacts, Missing, Ping
from preflight.model.cluster import Cluster, Host
from preflight.transport.fanout import fan_out
from preflight.transport.programs import source
from preflight.transport.types import Progress, Transport

# No source says how long hccn_tool waits between its three packets: a second a ping is assumed where time is foretold,
# and six, two a packet, are granted.
PING_SECONDS = 1.0
PING_GRANTED = 6.0
LONG = 60.0  # seconds after which somebody who waits is told what is shorter


def _longest(plan: Sequence[Ping]) -> int:
    """The most pings that one device has to do, one after the other; devices and hosts go at the same time."""
    return max(Counter((ping.host, ping.device) for ping in plan).values(), default=0)


def expected_seconds(plan: Sequence[Ping], pool: int = POOL) -> float:
    """How long the pings will take, by the rule of thumb of PING_SECONDS."""
    rounds = -(-len({ping.host for ping in plan}) // pool)
    return _longest(plan) * rounds * PING_SECONDS


def foretold(plan: Sequence[Ping], pool: int = POOL) -> str:
    """What is about to be done and how long it takes, for who waits for it; empty where nothing is."""
    if not plan:
        return ""
    seconds = expected_seconds(plan, pool)
    hosts, longest = len({ping.host for ping in plan}), _longest(plan)
    where = f"{hosts:,} hosts" if hosts > 1 else "one host"
    text = f"{len(plan):,} pings between the devices of {where}, {longest:,} a device: about {seconds:,.0f} s"
    if seconds > LONG:
        text += "; shorter: without --mesh and --cross-rail, --limit fewer hosts, --pool more at once, or --no-ping"
    return text


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
        words = {"pings": [[planned.device, _words(planned)] for planned in mine], "ping_seconds": PING_GRANTED}
        return _answered(replace(request, words=words).ask(transport, host), mine)

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


def _words(ping: Ping) -> list[str]:
    """The arguments of hccn_tool. Its `pkt` is the size of a packet; of `-ping` it sends three, always."""
    if ping.purpose == "hccs":
        return ["-hccs_ping", "-g", "address", ping.address, "cnt", "3"]
    return ["-ping", "-g", "address", ping.address, *(["pkt", str(ping.size)] if ping.size else [])]


def _answered(found: Sections | Missing, asked: Sequence[Ping]) -> tuple[Ping, ...]:
    """The pings of one host with what came of each: of every device a list of answers, in the order of its pings."""
    raw = section(found, "pings", dict[int, list[Output]])
    if isinstance(raw, Missing):
        return tuple(replace(ping, error=raw.error) for ping in asked)
    answers: Mapping[int, Iterator[Output]] = {device: iter(outputs) for device, outputs in raw.items()}
    return tuple(_with(ping, next(answers.get(ping.device, iter(())), None)) for ping in asked)


def _with(ping: Ping, output: Output | None) -> Ping:
    if output is None:
        return replace(ping, error="hccn_tool did not answer in time")
    hccs = ping.purpose == "hccs"
    result = npu.only("ping", output, hccn_tool.hccs_ping if hccs else hccn_tool.ping)
    if isinstance(result, str):
        return replace(ping, error=result)
    return replace(
        ping,
        sent=result.sent,
        received=result.received,
        milliseconds=result.milliseconds,
        error=result.error,
        plane_faults=result.plane_faults if hccs else 0,
    )
