"""The second round over the hosts: the pings of a plan, in one round trip per host."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from preflight.facts.answers import npu
from preflight.facts.answers.host import Sections, section
from preflight.facts.collect import POOL, CollectorRequest, without_sudo
from preflight.facts.output import ToolOutput
from preflight.facts.parsers.ascend import hccn_tool
from preflight.facts.types import ClusterFacts, HostFacts, Missing, Os
from preflight.model.cluster import Cluster, Host
from preflight.model.ping import Ping
from preflight.transport.fanout import NO_LIMITS, FanOutLimits, RunLimits, fan_out
from preflight.transport.programs import source
from preflight.transport.types import Progress, Transport

# No source has hccn_tool's delay between its three packets. The forecast assumes one second per ping, and the timeout
# is six seconds, two per packet.
PING_SECONDS = 1.0
PING_GRANTED = 6.0
LONG = 60.0  # seconds; a longer forecast names faster options


def _longest(plan: Sequence[Ping]) -> int:
    """Return the most pings of one device, which sends one after the other. Devices and hosts work at the same time."""
    return max(Counter((ping.host, ping.device) for ping in plan).values(), default=0)


def expected_seconds(plan: Sequence[Ping], pool: int = POOL) -> float:
    """Return the expected seconds of the pings, by the rule of thumb of PING_SECONDS."""
    rounds = -(-len({ping.host for ping in plan}) // FanOutLimits(pool, 0).width)
    return _longest(plan) * rounds * PING_SECONDS


def forecast(plan: Sequence[Ping], pool: int = POOL) -> str:
    """Return a forecast of the pings and their time for the user; empty for an empty plan."""
    if not plan:
        return ""
    seconds = expected_seconds(plan, pool)
    hosts, longest = len({ping.host for ping in plan}), _longest(plan)
    scope = f"{hosts:,} hosts" if hosts > 1 else "one host"
    text = f"{len(plan):,} pings between the devices of {scope}, {longest:,} per device, about {seconds:,.0f} s"
    if seconds > LONG:
        text += ". To shorten this, omit --mesh and --cross-rail, use fewer hosts (--limit), or use --no-ping"
    return text


def reachable_hosts(cluster: Cluster, facts: ClusterFacts) -> list[Host]:
    """Return the hosts with facts, as later rounds contact them: without sudo if sudo has refused before."""
    contacts = [(host, facts.hosts.get(host.name)) for host in cluster.hosts]
    return [
        without_sudo(host) if isinstance(contact.os, Os) and contact.os.refused else host
        for host, contact in contacts
        if isinstance(contact, HostFacts)
    ]


def ping(
    hosts: Sequence[Host],
    transport: Transport,
    plan: Sequence[Ping],
    progress: Callable[[Progress], None] | None,
    *,
    limits: RunLimits = NO_LIMITS,
) -> tuple[Ping, ...]:
    """Send the pings of `plan`, in one round trip per host, and return them in its order with their results.

    `hosts`: those with facts. Pings of other hosts have an error, and those of hosts that cannot be reached any more.
    """
    pings_by_host: dict[str, list[Ping]] = {}
    for planned in plan:
        pings_by_host.setdefault(planned.host, []).append(planned)
    request = CollectorRequest(source("collect"), {"pings": _longest(plan) * PING_GRANTED}, {})

    def ping_from(host: Host) -> tuple[Ping, ...]:
        host_pings = pings_by_host[host.name]
        words = {"pings": [[planned.device, _words(planned)] for planned in host_pings], "ping_seconds": PING_GRANTED}
        return _with_results(replace(request, words=words).ask(transport, host), host_pings)

    senders = [host for host in hosts if host.name in pings_by_host]
    outcomes = fan_out(senders, ping_from, limits.each(request.timeout), progress=progress, phase="pings")
    results: dict[str, Iterator[Ping]] = {}
    for name, host_pings in pings_by_host.items():
        outcome = outcomes.get(name)
        if isinstance(outcome, tuple):
            results[name] = iter(outcome)
        else:
            error = str(outcome) if outcome else "no facts were collected from the host"
            results[name] = iter(replace(planned, error=error) for planned in host_pings)
    return tuple(next(results[planned.host]) for planned in plan)


def _words(ping: Ping) -> list[str]:
    """Return the arguments of hccn_tool. Its `pkt` is the size of a packet. `-ping` always sends three packets."""
    if ping.purpose == "hccs":
        return ["-hccs_ping", "-g", "address", ping.address, "cnt", "3"]
    return ["-ping", "-g", "address", ping.address, *(["pkt", str(ping.size)] if ping.size else [])]


def _with_results(answer: Sections | Missing, pings: Sequence[Ping]) -> tuple[Ping, ...]:
    """Return the pings of one host with their results. Each device has a list of answers, in the order of its pings."""
    raw = section(answer, "pings", dict[int, list[ToolOutput]])
    if isinstance(raw, Missing):
        return tuple(replace(ping, error=raw.error) for ping in pings)
    answers: Mapping[int, Iterator[ToolOutput]] = {device: iter(outputs) for device, outputs in raw.items()}
    return tuple(_with(ping, next(answers.get(ping.device, iter(())), None)) for ping in pings)


def _with(ping: Ping, output: ToolOutput | None) -> Ping:
    if output is None:
        return replace(ping, error="hccn_tool did not answer in time")
    hccs = ping.purpose == "hccs"
    result = npu.only_answer("ping", output, hccn_tool.hccs_ping if hccs else hccn_tool.ping)
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
