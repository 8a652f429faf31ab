"""Ports that a job binds explicitly: reserved now, reserved at boot, free."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from preflight.checks.engine.registry import Here, host_check
from preflight.facts.parsers.linux.sysctl import OWN_FILE
from preflight.facts.types import Os, Socket, Sockets, Sysctl
from preflight.model.change import Area, Change, Kind
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.ports import PortSet
from preflight.model.text import quote
from preflight.rules.own_processes import WAIT, Owner, owner, show_run
from preflight.rules.sysctl.load_order import LONGEST, LoadPath
from preflight.rules.sysctl.reserved_ports import KEY, Edit, Repair, fault, repair, unread, unreadable, winner

# States in which no process holds the port any more. The kernel keeps the connection for a minute for late packets.
_DEAD = {"TIME-WAIT", "FIN-WAIT-1", "FIN-WAIT-2", "LAST-ACK", "CLOSING"}
_CONFIGURE = ("preflight configure-ports",)
_REAPPLY = (
    'sed -i "s/^ *reapply_sysctl *=.*/reapply_sysctl = 1/" /etc/tuned/tuned-main.conf',
    "systemctl restart tuned",
)


def _not_reserved(ports: PortSet) -> str:
    """Return `port 29500 is not reserved`, or `ports 29500,60000-60031 are not reserved`."""
    return f"port {ports} is not reserved" if len(ports) == 1 else f"ports {ports} are not reserved"


@host_check("PRT101", "Reserved ports", configures=Area.PORTS, blocks=False)
def reserved_now(scribe: Here, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: The kernel may use port 60005 as the source port of an outgoing connection of any program. A job that wants
    to listen on that port a second later fails to bind. Reserving a range of ports excludes it from automatic port
    assignment and has no other effect. An explicit bind still works.

    Result: FAIL if a job port is not reserved. preflight keeps ports that are already reserved.

    Check manually:
      sysctl net.ipv4.ip_local_reserved_ports

    Fix: Reserve the ports.
      preflight configure-ports
    Or reserve them manually. The command replaces the whole list, so replace OLD with the current value.
      sysctl -w net.ipv4.ip_local_reserved_ports=OLD,60000-60031
    For a container, use docker run --sysctl. For a pod, use securityContext.sysctls. If a container or pod uses the
    host's network, reserve the ports on the host.
    """
    before = sysctl.reserved_ports.strip()
    reserved = PortSet.parse(before)
    missing = scribe.cluster.ports - reserved
    united = reserved | scribe.cluster.ports
    if missing and sysctl.read_only:
        yield scribe.unknown(
            f"{scribe.host.name}: {_not_reserved(missing)}, and /proc/sys is read-only, as in a container",
            expected=str(scribe.cluster.ports),
            found=before or "nothing reserved",
            remedy=f"start the container with docker run --sysctl {KEY}={united}, or the pod with "
            "securityContext.sysctls. If the container uses the host's network, reserve the ports on the host itself",
        )
    elif missing and len(str(united)) > LONGEST:
        yield _too_long(scribe, united)
    elif missing:
        yield scribe.bad(
            f"{scribe.host.name}: {_not_reserved(missing)}",
            expected=str(scribe.cluster.ports),
            found=before or "nothing reserved",
            remedy=f"reserve the ports in {KEY}",
            commands=_CONFIGURE,
            change=Change(scribe.host.name, Area.PORTS, Kind.SYSCTL, KEY, before, str(united), scribe.check.id),
        )


@host_check("PRT102", "Reserved ports after reboot", configures=Area.PORTS, blocks=False)
def reserved_at_boot(scribe: Here, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: A manually set value is lost at a reboot. A value in a file depends on the program that loads the file. The
    boot process reads the folders of sysctl.d(5). The command sysctl --system reads these folders and then
    /etc/sysctl.conf. The command sysctl -p reads only /etc/sysctl.conf, and tuned sets its own value.

    Result: FAIL if the file that is read last has an incomplete list, because it replaces all other lists. WARN if a
    file has an incomplete list and a later file has the complete list. For this reason, preflight writes the same list
    to every file that sets the key. The list contains the ports in the files, the currently reserved ports and the
    inventory's ports.

    Check manually:
      grep -n ip_local_reserved_ports /etc/sysctl.conf
      grep -rn ip_local_reserved_ports /etc/sysctl.d /run/sysctl.d
      grep -rn ip_local_reserved_ports /usr/local/lib/sysctl.d /usr/lib/sysctl.d
      grep -rn ip_local_reserved_ports /etc/tuned /usr/lib/tuned

    Fix: Write the complete list. To do this manually, edit the files that grep finds. If grep finds none, create
    /etc/sysctl.d/90-preflight.conf.
      preflight configure-ports
    """
    if sysctl.read_only:
        yield scribe.skip(
            f"/proc/sys on {scribe.host.name} is read-only, so its sysctl files have no effect (see PRT101)"
        )
        return
    unknown = unread(sysctl)
    for path, error in unknown:
        yield scribe.unknown(
            f"{scribe.host.name}: the ports that {path} reserves are unknown, so no file is changed: {error}"
        )
    refused = [] if unknown else unreadable(sysctl)
    for path, value in refused:
        yield scribe.bad(
            f"{scribe.host.name}: {path} sets {KEY} to {quote(value)}, which the kernel rejects, so no file is changed",
            expected="a list of ports such as 8080,60000-60031",
            remedy=f"correct {KEY} in {path}, then reserve the ports",
            commands=_CONFIGURE,
        )
    if unknown or refused:
        return
    plan = repair(sysctl, scribe.cluster.ports)
    if len(str(plan.united)) > LONGEST:
        yield _too_long(scribe, plan.united)
        return
    yield from (_file(scribe, plan, edit) for edit in plan.edits)
    yield from _not_writable(scribe, sysctl, plan)


def _not_writable(scribe: Here, sysctl: Sysctl, plan: Repair) -> Iterator[Finding]:
    """Yield the files that set the key last and that preflight may not write."""
    deciding: dict[_DecidingFile, list[LoadPath]] = {}
    for load_path in plan.left:
        deciding.setdefault(_deciding_file(load_path, sysctl), []).append(load_path)
    for file, load_paths in deciding.items():
        missing = _not_reserved(plan.left[load_paths[0]])
        text = f"after {_alternatives(load_paths)}, {missing}, because {file.path} is a symbolic link"
        if file.path != OWN_FILE:
            text = f"after {_alternatives(load_paths)}, {file.path} {fault(file.value)}, so {missing}"
        own_commands = tuple(scribe.on(scribe.host.name, command) for command in file.commands)
        yield scribe.bad(
            f"{scribe.host.name}: {text}. preflight does not change this {'link' if file.path == OWN_FILE else 'file'}",
            remedy=file.remedy,
            commands=(*own_commands, *(_CONFIGURE if file.configures else ())),
        )


def _file(scribe: Here, plan: Repair, edit: Edit) -> Finding:
    """Return the finding about a file that has to change; a warning if another file makes up for it."""
    change = Change(scribe.host.name, Area.PORTS, Kind.FILE, edit.path, edit.before, edit.after, scribe.check.id)
    if plan.short:
        missing = PortSet.of(part for ports in plan.short.values() for part in ports.ranges)
        text = f"{_not_reserved(missing)} after {_alternatives(plan.short)}: {edit.path} {edit.found}"
        report, expected = scribe.bad, scribe.cluster.ports
    else:
        text = f"{edit.path} {edit.found}. Only a file that is read later adds the missing ports"
        report, expected = scribe.warn, plan.united
    return report(
        f"{scribe.host.name}: {text}",
        expected=str(expected),
        remedy=f"let preflight set {KEY} = {plan.united} in {edit.path}",
        commands=_CONFIGURE,
        change=change,
    )


def _alternatives(load_paths: Iterable[LoadPath]) -> str:
    """Return `a reboot, sysctl --system or sysctl -p`."""
    *first_paths, last = load_paths
    return f"{', '.join(first_paths)} or {last}" if first_paths else str(last)


@dataclass(frozen=True)
class _DecidingFile:
    """The file that sets the key last in a way of loading, with the manual fix and its commands on the host.

    `configures`: preflight reserves the ports after these commands."""

    path: str
    value: str
    remedy: str
    commands: tuple[str, ...]
    configures: bool = True


def _deciding_file(load_path: LoadPath, sysctl: Sysctl) -> _DecidingFile:
    """Return the file that sets the key last in a way of loading that preflight cannot fix."""
    tuned, file = sysctl.tuned, winner(load_path, sysctl)
    if load_path is LoadPath.TUNED and tuned and not tuned.reapply:
        remedy = "let tuned read the sysctl files after its own profile, then restart tuned"
        return _DecidingFile(tuned.source, tuned.value, remedy, _REAPPLY, configures=False)
    if file is None:
        remedy = f"remove the link {OWN_FILE}, then reserve the ports again"
        return _DecidingFile(OWN_FILE, "", remedy, (f"rm {OWN_FILE}",))
    remedy = f"copy {file.path} to /etc/sysctl.d, then let preflight add the ports to the copy"
    return _DecidingFile(file.path, file.value or "", remedy, (f"cp -n {shlex.quote(file.path)} /etc/sysctl.d/",))


def _too_long(scribe: Here, ports: PortSet) -> Finding:
    return scribe.bad(
        f"{scribe.host.name}: {KEY} would need {len(str(ports))} characters. The kernel accepts "
        f"at most {LONGEST} characters, so nothing is changed",
        expected=f"at most {LONGEST} characters",
        found=f"{len(str(ports))} characters",
        remedy="use fewer port ranges under [ports] in the inventory, or remove unneeded ports from "
        "the files that this command lists",
        commands=(scribe.on(scribe.host.name, "grep -rs ip_local_reserved_ports /etc/sysctl.conf /etc/sysctl.d"),),
    )


@host_check("PRT103", "Job port availability", optional=("os",), configures=Area.PORTS)
def free(scribe: Here, sockets: Sockets, os: Os | None) -> Iterator[Finding]:
    """Why: A job fails to bind if one of its ports is in use. Often the port is in use on only one host, and the other
    hosts wait. An outgoing connection with the job port as its source port also blocks a bind. A list of listeners does
    not show such a connection.

    Result: FAIL if a listener or such a connection uses a job port. WARN for closed connections (TIME-WAIT), because
    they block programs that bind without SO_REUSEADDR. WARN if another preflight run uses the port, because the port
    becomes free when that run ends. Ports of this run are ignored.

    Check manually: Replace the ports with the job's ports. This example is for 60000-60031 and 29500:
      ss -tanp '( sport >= :60000 and sport <= :60031 ) or sport = :29500'

    Fix: Stop the process in the finding, or move the job to other ports.
    """
    finished: dict[str, list[str]] = defaultdict(list)  # port → its finished connections; a job leaves many
    of_other_run: set[str] = set()  # reported ports; a store has a connection of each rank
    for socket in sockets.on_job_ports:
        holder = owner(os, socket.pid, socket.process)
        if socket.local_port not in scribe.cluster.ports or holder is Owner.THIS_RUN:
            continue
        port = f"port {socket.local_port} ({scribe.cluster.purpose(socket.local_port)})"
        if socket.state in _DEAD:
            finished[port].append(_process_or_peer(socket))
        elif holder is Owner.JOB:
            yield _taken(scribe, socket, port)
        elif port not in of_other_run:
            of_other_run.add(port)
            connection = _process_or_peer(socket)
            yield scribe.warn(
                f"{scribe.host.name}: {port} is taken by another preflight run: {connection}",
                expected="free",
                found=connection,
                remedy=WAIT,
                commands=(scribe.on(scribe.host.name, show_run(socket.pid)),),
            )
    for port, connections in finished.items():
        yield _finished(scribe, port, connections)


def _taken(scribe: Here, socket: Socket, port: str) -> Finding:
    """Return the finding about a port with a listener, or with a connection that uses it as its own end."""
    holder, listens = _process_or_peer(socket), socket.state == "LISTEN"
    query = f"ss -t{'l' if listens else 'a'}np sport = :{socket.local_port}"
    commands = (scribe.on(scribe.host.name, f"kill {socket.pid}" if socket.pid else query),)
    if listens:
        return scribe.bad(
            f"{scribe.host.name}: {port} is taken by {holder}",
            expected="free",
            found=holder,
            remedy="stop the process or its service if it is a leftover, or move the job to other ports"
            if socket.pid
            else "find the process as root, and stop it if it is a leftover",
            commands=commands,
        )
    return scribe.bad(
        f"{scribe.host.name}: {port} is the local end of a connection ({holder})",
        expected="free",
        found=holder,
        evidence=("the connection blocks a bind, although it is not in any list of listeners",),
        remedy=f"end the {'process, if it is a leftover' if socket.pid else 'connection'}, then reserve the port",
        commands=(*commands, *_CONFIGURE),
    )


def _finished(scribe: Here, port: str, connections: list[str]) -> Finding:
    """Return the finding about connections that are only waiting to be forgotten."""
    first, *further = connections
    subject, summary = "a finished connection", first
    if further:
        subject, summary = "finished connections", f"{first} and {len(further)} more"
    return scribe.warn(
        f"{scribe.host.name}: {port} is still held by {subject} ({summary})",
        found=summary,
        remedy="wait a minute",
        commands=(scribe.on(scribe.host.name, "ss -tan"),),
    )


def _process_or_peer(socket: Socket) -> str:
    """Return the process that listens, or the connection's state, peer and process."""
    process = f"{socket.process or 'a process'} (pid {socket.pid})" if socket.pid else socket.process or ""
    if socket.state == "LISTEN":
        return process or "a process that the login user cannot see"
    return f"{socket.state} to {socket.remote_address}:{socket.remote_port}" + (f", {process}" if process else "")


@host_check("PRT104", "Unreserved ephemeral ports", severity=Outcome.WARN, configures=Area.PORTS)
def enough_left(scribe: Here, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: Outgoing connections and the listeners of gloo and NCCL get unreserved ports from ip_local_port_range. If
    most of that range is reserved, a busy host runs out of ports. Then connect fails with EADDRNOTAVAIL, and bind fails
    with EADDRINUSE.

    Result: WARN if less than half of the range is unreserved.

    Check manually:
      sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports

    Fix: Move the job ports out of the range, reserve only the ports that jobs bind themselves, or widen the range.
      sysctl -w net.ipv4.ip_local_port_range="20000 60999"
    """
    low, high = sysctl.local_port_range
    whole = PortSet.of([sysctl.local_port_range])
    ports_left = len(whole - (PortSet.parse(sysctl.reserved_ports) | scribe.cluster.ports))
    if ports_left * 2 < len(whole):
        yield scribe.bad(
            f"{scribe.host.name}: only {ports_left} of {len(whole)} ephemeral ports ({low}-{high}) are left for "
            "outgoing connections after the job's ports are reserved",
            expected=f"at least {(len(whole) + 1) // 2} ports",
            found=f"{ports_left} ports",
            remedy="widen net.ipv4.ip_local_port_range, or move the job's ports out of it",
        )
