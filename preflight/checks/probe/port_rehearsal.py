"""The port rehearsal before any torch: hosts have listened on the job's ports, and others have connected."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from preflight.attribution.blocked_ports import Path, Wall, hows, lost, rejecting, told, untried
from preflight.attribution.culprit_words import counted, folded
from preflight.checks.engine.registry import All, cluster_check
from preflight.facts.sections.firewall import Arrivals
from preflight.facts.types import Sockets
from preflight.model.cluster import FirewallPolicy
from preflight.model.finding import Finding
from preflight.model.measure import Culprit
from preflight.model.ports import PortSet
from preflight.model.rehearsal import Attendance, How, Rehearsal, Taken, Visit
from preflight.rules.own_processes import Owner, owner

_RANGE = "net.ipv4.ip_local_port_range"
_OUTPUT_RULES = ("nft list ruleset", "iptables -S OUTPUT")
_BETWEEN = "the cloud's security groups and the ACLs of switches and routers"


@cluster_check("PRB114", "Job and ephemeral port reachability", optional=("arrivals", "sockets"))
def port_reachability(
    scribe: All,
    rehearsal: Rehearsal,
    arrivals: Mapping[str, Arrivals | None],
    sockets: Mapping[str, Sockets | None],
) -> Iterator[Finding]:
    """Why: A port that a firewall blocks, or that another process holds, causes no error message. All ranks wait for a
    timeout, and its message points to a healthy host. Both gloo and NCCL listen on ports that the kernel
    chooses, so opening the master's port is not enough.

    Result: FAIL for lost connections and for ports that are in use. WARN for a port in use by another run of preflight.
    Before torch starts, every host listens on the job's ports and on ephemeral ones, and the others connect. Both ends
    prove that they belong to this run. Faults that FWL101, FWL104 or PRT103 reports are left out.

    Check manually: On one host, with ADDRESS replaced by its address:
      python3 -m http.server 29500 --bind ADDRESS
    On another host, with the same ADDRESS:
      nc -vz -w 2 ADDRESS 29500

    Fix: Open the ports. Then check security groups of the cloud and ACLs of switches. End the process that uses a port.
      preflight configure-firewall
    """
    hosts = {host.name for host in scribe.hosts}
    if not rehearsal.hosts:
        yield scribe.unknown("no host took part in the port rehearsal")
    for attendance in rehearsal.hosts:
        if attendance.host in hosts:
            yield from _own_findings(scribe, attendance, sockets.get(attendance.host))
    for visits, finding in _lost_connections(scribe, rehearsal):
        if _is_reported(visits, arrivals):
            yield scribe.skip("FWL101 or FWL104 reports the same lost connections", host=finding.host)
        else:
            yield finding
    for source, reasons in untried(rehearsal.visits).items():
        for why, count in reasons.items():
            yield scribe.unknown(f"{source}: could not try {counted(count, 'connection')}: {why}", host=source)


def _own_findings(scribe: All, attendance: Attendance, sockets: Sockets | None) -> Iterator[Finding]:
    """Yield the findings of a host without the others: its absence, or the holders of its ports."""
    host = attendance.host
    if attendance.error:
        yield scribe.unknown(f"{host}: did not take part in the port rehearsal: {attendance.error}", host=host)
    reported_ports = {socket.local_port for socket in sockets.on_job_ports} if sockets else set()  # by PRT103
    holders: dict[str, list[Taken]] = defaultdict(list)
    for busy_port in attendance.taken:
        if busy_port.port not in reported_ports:
            holders[_holder(busy_port)].append(busy_port)
    for holder, busy_ports in holders.items():
        yield _busy(scribe, host, holder, busy_ports)


def _busy(scribe: All, host: str, holder: str, busy_ports: Sequence[Taken]) -> Finding:
    pid, ports = busy_ports[0].pid, [busy_port.port for busy_port in busy_ports]
    other_run = owner(None, pid, busy_ports[0].process) is Owner.OTHER_RUN
    show = f"ps -o pid,user,lstart,args -p {pid}"
    remedy = "find the process that uses the port (only root can see it)"
    commands: tuple[str, ...] = ("ss -tanp",)
    if pid and other_run:
        remedy, commands = "wait until the other preflight run has ended", (show,)
    elif pid:
        remedy = "check which service or job runs the process. If it is a leftover, end it"
        commands = (show, f"kill {pid}")
    return (scribe.warn if other_run else scribe.bad)(
        f"{host}: {_port_words(scribe, ports)} {'is' if len(ports) == 1 else 'are'} held by {holder}",
        host=host,
        expected="free",
        found=holder,
        culprit=None if other_run else _culprit("port held", host),
        remedy=remedy,
        commands=tuple(scribe.on(host, command) for command in commands),
    )


def _holder(taken: Taken) -> str:
    process = (
        f"{taken.process or 'a process'} (pid {taken.pid})" if taken.pid else "a process that this user cannot see"
    )
    return process if taken.listening else f"a connection of {process}"


def _culprit(cause: str, *hosts: str) -> Culprit:
    return Culprit("link" if len(hosts) > 1 else "host", tuple(sorted(hosts)), (), cause)


def _lost_connections(scribe: All, rehearsal: Rehearsal) -> Iterator[tuple[tuple[Visit, ...], Finding]]:
    """Yield the findings about connections that failed, each with the visits that it explains."""
    by_cause = lost(rehearsal)
    unreached = {wall.target.host for wall in by_cause.walls if wall.all_ports}
    for source, visits in by_cause.cut_off.items():
        yield visits, _cut_off(scribe, source, visits, both_ways=source in unreached)
    for wall in by_cause.walls:
        if not (wall.all_ports and wall.target.host in by_cause.cut_off):
            yield wall.visits, _wall(scribe, wall, len(rehearsal.hosts))
    for path in by_cause.paths:
        yield path.visits, _path(scribe, path)


def _lost(scribe: All, summary: str, visits: tuple[Visit, ...], ports: Iterable[int] = (), **details: Any) -> Finding:
    """Return a finding about failed connections. `ports`: those that it is about, all if it is empty."""
    wanted = set(ports)
    lines = (_evidence(visit, wanted) for visit in visits[:8])
    return scribe.bad(
        summary,
        expected="connected",
        found=told(visits, wanted),
        evidence=(*details.pop("evidence", ()), *lines),
        **details,
    )


def _evidence(visit: Visit, ports: set[int]) -> str:
    failures = told([visit], ports)
    several = {",", "-"} & set(failures.partition(":")[0])
    return f"{visit.source} to {visit.target}, port{'s' if several else ''} {failures}"


def _cut_off(scribe: All, source: str, visits: tuple[Visit, ...], *, both_ways: bool) -> Finding:
    nor = ", and no other host can connect to this host" if both_ways else ""
    return _lost(
        scribe,
        f"{source}: cannot connect to any of {len(visits)} other hosts{nor}",
        visits,
        host=source,
        evidence=("other hosts can connect to the same hosts",),
        cause=f"the address, a route or the firewall of {source}",
        culprit=_culprit("no connection succeeds", source),
        remedy=f"check the address, the routes and the output rules of {source}. Then check {_BETWEEN}",
        commands=tuple(scribe.on(source, command) for command in ("ip addr", "ip route", *_OUTPUT_RULES)),
    )


def _wall(scribe: All, wall: Wall, hosts: int) -> Finding:
    host, senders = wall.target.host, {visit.source for visit in wall.visits}
    # No connection succeeds, and no other host tried.
    lone_sender = senders if wall.all_ports and len(senders) == 1 else ()
    subject = "the other host" if hosts == 2 else "other hosts"
    objects = "any tested port" if wall.all_ports else _ports(scribe, wall)
    remedy, commands = _remedy(scribe, wall.ephemeral)
    if _other_listener(wall.visits):
        remedy, commands = _answering(scribe, wall.target, wall.visits, wall.ports)
    return _lost(
        scribe,
        f"{host}: {subject} cannot connect to {objects}",
        wall.visits,
        wall.ports,
        host=host,
        peer=wall.visits[0].source,
        cause=_cause(wall.target, wall.visits),
        remedy=remedy,
        commands=commands,
        culprit=_culprit("port blocked", host, *lone_sender),
    )


def _path(scribe: All, path: Path) -> Finding:
    host = path.target.host
    senders = [visit.source for visit in path.visits if visit.target == host]
    sources = folded(senders)
    remedy = f"check {_BETWEEN}. Then check the routes and the output rules of {sources}"
    commands = tuple(scribe.on(senders[0], command) for command in ("ip route", *_OUTPUT_RULES))
    if _other_listener(path.visits):
        ports = frozenset(port for visit in path.visits if visit.target == host for port in visit.dead)
        remedy, commands = _answering(scribe, path.target, path.visits, ports)
    direction = "with" if path.both_ways else "from"
    return _lost(
        scribe,
        f"{host}: connections {direction} {sources} fail. Connections {direction} other hosts succeed",
        path.visits,
        host=host,
        peer=path.visits[0].source,
        cause=_other_listener(path.visits) or "the path between them, or a firewall rule for these senders",
        remedy=remedy,
        commands=commands,
        culprit=_culprit("port blocked on the way", host, *dict.fromkeys(senders)),
    )


def _ports(scribe: All, wall: Wall) -> str:
    ephemeral = wall.ports & set(wall.target.ephemeral)
    words = [_port_words(scribe, sorted(wall.ports - ephemeral))] if wall.ports - ephemeral else []
    if ephemeral:
        words.append(f"ephemeral ports {PortSet.of((port, port) for port in ephemeral)}")
    return " and ".join(words)


def _port_words(scribe: All, ports: list[int]) -> str:
    """Return `port 29500 (master)`, or `ports 29500,60000-60031 (master, HCCL)`."""
    purposes = ", ".join(dict.fromkeys(scribe.cluster.purpose(port) for port in ports))
    return f"port{'s' if len(ports) > 1 else ''} {PortSet.of((port, port) for port in ports)} ({purposes})"


def _cause(target: Attendance, visits: tuple[Visit, ...]) -> str:
    by = list(rejecting(visits))
    if by == [target.address]:
        return "the host's own firewall rejects the connections"
    if by:
        return f"a router or firewall on the path ({', '.join(by[:4])}) rejects the connections"
    if How.REFUSED in hows(visits):
        return "a firewall on the host or on the path resets the connections (REJECT), although the port is open"
    return _other_listener(visits) or "a firewall on the host or on the path drops the connections"


def _other_listener(visits: tuple[Visit, ...]) -> str:
    if not hows(visits) <= {How.MUTE, How.STRANGER}:
        return ""
    return "another program answers at that address or port: a proxy, a redirect rule, or a host with the same address"


def _answering(
    scribe: All, target: Attendance, visits: tuple[Visit, ...], ports: frozenset[int]
) -> tuple[str, tuple[str, ...]]:
    """Return how to find the program that answers in place of preflight: a listener, a redirect rule or a machine with
    the same address."""
    host, source = target.host, visits[0].source
    remedy = (
        f"list the listeners and the redirect rules on {host}. If neither explains the answer, compare the MAC address "
        f"that {source} uses for {target.address} with that of {host}"
    )
    listeners = f"ss -ltnp sport = :{min(ports)}"
    commands = [scribe.on(host, command) for command in (listeners, "nft list ruleset", "ip -br link")]
    return remedy, (*commands[:2], scribe.on(source, f"ip neigh show {target.address}"), commands[2])


def _remedy(scribe: All, ephemeral: bool) -> tuple[str, tuple[str, ...]]:
    """Return the first thing to do about blocked ports, and its command."""
    cluster = scribe.cluster
    ports = f"the ephemeral ports ({_RANGE})" if ephemeral else "the job's ports"
    if ephemeral and not cluster.listens_anywhere:
        return f"open {ports} between the hosts, or use hccl. Only gloo and nccl listen on ephemeral ports", ()
    if cluster.firewall is FirewallPolicy.LEAVE:
        opening = f"open {ports} between the hosts in the firewall, which preflight does not manage"
        return f"{opening}. If the ports are already open, check {_BETWEEN}", ()
    opening = f"open {ports} between the hosts. If the ports are already open, check {_BETWEEN}"
    return opening, ("preflight configure-firewall",)


def _is_reported(visits: Iterable[Visit], arrivals: Mapping[str, Arrivals | None]) -> bool:
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
