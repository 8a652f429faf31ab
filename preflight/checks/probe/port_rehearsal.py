"""The port rehearsal before any torch: hosts have listened on the job's ports, and others have connected."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from preflight.attribution.blocked_ports import Path, Wall, hows, lost, rejecting, told, untried
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.firewall.policy import BETWEEN
from preflight.facts.sections.firewall import Arrivals
from preflight.facts.types import Sockets
from preflight.model.cluster import FirewallPolicy
from preflight.model.finding import Finding
from preflight.model.measure import Culprit
from preflight.model.ports import PortSet
from preflight.model.rehearsal import Attendance, How, Rehearsal, Taken, Visit
from preflight.rules.own_processes import Owner, end, owner, wait

_RANGE = "net.ipv4.ip_local_port_range"


@cluster_check("PRB114", "Every host reaches the ports that the job will use", optional=("arrivals", "sockets"))
def reaches_the_ports(
    all_: All,
    rehearsal: Rehearsal,
    arrivals: Mapping[str, Arrivals | None],
    sockets: Mapping[str, Sockets | None],
) -> Iterator[Finding]:
    """Why: a port that a firewall closes, or that somebody holds, makes no error: all ranks wait for a time-out, whose
    message names a host that is fine. gloo and NCCL listen on ports that the kernel chooses, so opening the master's is
    not enough. Before torch, every host listens on the job's ports and on ephemeral ones, the others connect, and both
    ends prove that they are of this run. Where FWL104 or PRT103 has seen the same, nothing is said here.

    Check manually: python3 -m http.server 29500 --bind ADDRESS on one host; nc -vz -w 2 ADDRESS 29500 on another

    Fix: preflight configure-firewall; then security groups of the cloud and ACLs of switches; end who holds a port
    """
    host_names = {host.name for host in all_.hosts}
    if not rehearsal.hosts:
        yield all_.unknown("nobody took part in the port rehearsal", host=None)
    for attendance in rehearsal.hosts:
        if attendance.host in host_names:
            yield from _of_itself(all_, attendance, sockets.get(attendance.host))
    lost_connections = lost(rehearsal)
    blocked_hosts = {wall.target.host for wall in lost_connections.walls if wall.all_ports}
    findings = [
        (visits_of_host, _cut_off(all_, attendance, visits_of_host, both_ways=attendance in blocked_hosts))
        for attendance, visits_of_host in lost_connections.cut_off.items()
    ]
    walls = [
        wall for wall in lost_connections.walls if not (wall.all_ports and wall.target.host in lost_connections.cut_off)
    ]
    findings += [(wall.visits, _wall(all_, wall, len(rehearsal.hosts))) for wall in walls]
    findings += [(path.visits, _path(all_, path)) for path in lost_connections.paths]
    for visits, finding in findings:
        if _said_before(visits, arrivals):
            yield all_.skip("FWL101 or FWL104 has seen the same connections die", host=finding.host)
        else:
            yield finding
    for source, reasons in untried(rehearsal.visits).items():
        for why, count in reasons.items():
            yield all_.unknown(f"{source}: it could not try {count} connections: {why}", host=source)


def _of_itself(all_: All, one: Attendance, sockets: Sockets | None) -> Iterator[Finding]:
    """Yield the findings of a host without the others: its absence, or the holders of its ports."""
    if one.error:
        yield all_.unknown(f"{one.host}: it took no part: {one.error}", host=one.host)
    reported_ports = {socket.local_port for socket in sockets.on_job_ports} if sockets else set()
    holders: dict[str, list[Taken]] = defaultdict(list)
    for busy_port in one.taken:
        if busy_port.port not in reported_ports:  # else PRT103 reports it
            holders[_holder(busy_port)].append(busy_port)
    for holder, busy_ports in holders.items():
        ports, first = [busy_port.port for busy_port in busy_ports], busy_ports[0]
        other_run = owner(None, first.pid, first.process) is Owner.OTHER_RUN
        yield (all_.warn if other_run else all_.bad)(
            f"{one.host}: {_named(all_, ports)} held by {holder}",
            host=one.host,
            expected="free",
            found=holder,
            culprit=None if other_run else _culprit("port held", one.host),
            remedy=wait(one.host, first.pid)
            if other_run
            else end(one.host, first.pid, "stop its service")
            if first.pid
            else f"on {one.host}, as root: ss -tanp",
        )


def _holder(taken: Taken) -> str:
    process = (
        f"{taken.process or 'a process'} (pid {taken.pid})" if taken.pid else "somebody whom this user may not see"
    )
    return process if taken.listening else f"a connection of {process}"


def _culprit(cause: str, *hosts: str) -> Culprit:
    return Culprit("link" if len(hosts) > 1 else "host", tuple(sorted(hosts)), (), cause)


def _cut_off(all_: All, source: str, visits: tuple[Visit, ...], *, both_ways: bool) -> Finding:
    nor = ", and none comes in" if both_ways else ""
    return all_.bad(
        f"{source}: its connections reach none of {len(visits)} other hosts{nor}",
        host=source,
        expected="connected",
        found=told(visits),
        evidence=_evidence(visits),
        cause=f"these are reached from elsewhere, so {source} itself is the place to look",
        culprit=_culprit("its connections come to nobody", source),
        remedy=f"on {source} the address and route, then the output chain: nft list ruleset, iptables -S OUTPUT; "
        f"then {BETWEEN}",
    )


def _wall(all_: All, wall: Wall, hosts: int) -> Finding:
    senders = {visit.source for visit in wall.visits}
    # No connection succeeds, and no other host tried.
    lone_sender = senders if wall.all_ports and len(senders) == 1 else ()
    subject = "the other host does" if hosts == 2 else "other hosts do"
    objects = "any port that it listens on" if wall.all_ports else _ports(all_, wall)
    return all_.bad(
        f"{wall.target.host}: {subject} not reach {objects}",
        host=wall.target.host,
        peer=wall.visits[0].source,
        expected="connected",
        found=told(wall.visits, wall.ports),
        evidence=_evidence(wall.visits, wall.ports),
        cause=_cause(wall.target, wall.visits),
        remedy=_remedy(all_, wall.ephemeral),
        culprit=_culprit("port blocked", wall.target.host, *lone_sender),
    )


def _path(all_: All, path: Path) -> Finding:
    from preflight.inventory import fold  # ClusterShell is slow to load

    host = path.target.host
    senders = [visit.source for visit in path.visits if visit.target == host]
    sources = fold(senders)
    connections = (
        f"between it and {sources} do not come through, either way"
        if path.both_ways
        else (f"from {sources} do not come through")
    )
    return all_.bad(
        f"{host}: connections {connections}, others do",
        host=host,
        peer=path.visits[0].source,
        expected="connected",
        found=told(path.visits),
        evidence=_evidence(path.visits),
        cause=_by_strangers(path.visits) or "the path between them, or a rule about these senders",
        remedy=f"{BETWEEN}; on {sources} the route and the output chain",
        culprit=_culprit("port blocked on the way", host, *dict.fromkeys(senders)),
    )


def _ports(all_: All, wall: Wall) -> str:
    ephemeral = wall.ports & set(wall.target.ephemeral)
    words = [_named(all_, sorted(wall.ports - ephemeral))] if wall.ports - ephemeral else []
    if ephemeral:
        words.append(f"ports that the kernel chooses ({PortSet.of((port, port) for port in ephemeral)})")
    return " and ".join(words)


def _named(all_: All, ports: list[int]) -> str:
    """Return `port 29500 (master)`, or `ports 29500,60000-60031 (master, HCCL)`."""
    purposes = ", ".join(dict.fromkeys(all_.cluster.purpose(port) for port in ports))
    return f"port{'s' if len(ports) > 1 else ''} {PortSet.of((port, port) for port in ports)} ({purposes})"


def _cause(target: Attendance, visits: tuple[Visit, ...]) -> str:
    by = list(rejecting(visits))
    if by == [target.address]:
        return "its own firewall rejects them"
    if by:
        return f"rejected by {', '.join(by[:4])}: a router or firewall on the way"
    if How.REFUSED in hows(visits):
        return "a firewall, its own or one on the way, resets them (REJECT): the port listens"
    return _by_strangers(visits) or "its firewall drops them, or something in between does"


def _by_strangers(visits: tuple[Visit, ...]) -> str:
    if not hows(visits) <= {How.MUTE, How.STRANGER}:
        return ""
    return "somebody else is at that address or port: a proxy, a rule that redirects, another host with the address"


def _remedy(all_: All, ephemeral: bool) -> str:
    cluster = all_.cluster
    if ephemeral and not cluster.listens_anywhere:
        return f"open {_RANGE} between the hosts, or use hccl: gloo and nccl listen where the kernel chooses"
    opens = f"{_RANGE} between the hosts" if ephemeral else "the job's ports between the hosts"
    if cluster.firewall is FirewallPolicy.LEAVE:
        return f"open {opens} in the firewall, which the inventory leaves alone; if it is open: {BETWEEN}"
    return f"preflight configure-firewall (it opens {opens}); where it finds nothing to do: {BETWEEN}"


def _evidence(visits: tuple[Visit, ...], only: Iterable[int] = ()) -> tuple[str, ...]:
    return tuple(f"{visit.source} to {visit.target}: {told([visit], only)}" for visit in visits[:8])


def _said_before(visits: Iterable[Visit], arrivals: Mapping[str, Arrivals | None]) -> bool:
    """Return whether connections of one of these already died in the collected facts, so that FWL101 or FWL104 reports
    them."""
    died = {
        (arrival.source, host)
        for host, arrivals_of_host in arrivals.items()
        if arrivals_of_host
        for arrival in arrivals_of_host.tries
        if arrival.died
    }
    return any((visit.source, visit.target) in died for visit in visits)
