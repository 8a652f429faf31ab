"""Ports that a job binds explicitly: reserved now, reserved at boot, free."""

import posixpath
import re
from collections.abc import Iterator

from preflight.checks.registry import Here, host_check
from preflight.facts.types import Socket, Sockets, Sysctl, SysctlFile
from preflight.model.change import Area, Change, Kind
from preflight.model.finding import Finding
from preflight.model.ports import PortSet

KEY = "net.ipv4.ip_local_reserved_ports"
OWN_FILE = "/etc/sysctl.d/90-preflight.conf"
# A line that sets the key, as sysctl.d(5) and sysctl.conf(5) write it: slashes for dots, and a "-" in front for
# "ignore errors", are fine.
_LINE = re.compile(
    r"^([ \t]*-?[ \t]*net([./])ipv4\2ip_local_reserved_ports[ \t]*=[ \t]*)([^\r\n]*?)([ \t]*)(?=\r?$)", re.M
)
# Nobody holds the port any more; the kernel keeps the connection for a minute so that late packets find it.
_DEAD = {"TIME-WAIT", "FIN-WAIT-1", "FIN-WAIT-2", "LAST-ACK", "CLOSING"}


def _parse(text: str) -> PortSet:
    """A written value; one that the kernel refuses reserves nothing."""
    try:
        return PortSet.parse(text)
    except ValueError:
        return PortSet()


@host_check("PRT101", "The HCCL and job ports are reserved")
def reserved_now(here: Here, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: an outgoing connection of any program may be given port 60005 as its source port, and the job that wants
    to listen there a second later fails to bind. Reserving keeps automatic port assignment away from a range and
    costs nothing else; an explicit bind still works. What is already reserved stays reserved.

    By hand: sysctl net.ipv4.ip_local_reserved_ports

    Mend: preflight configure-ports, or sysctl -w net.ipv4.ip_local_reserved_ports=OLD,60000-60031 (a write replaces
    the whole list, so the old value has to be part of it)
    """
    before = sysctl.reserved_ports.strip()
    reserved = PortSet.parse(before)
    missing = here.cluster.ports - reserved
    if missing:
        after = str(reserved | here.cluster.ports)
        yield here.bad(
            f"{here.host.name}: ports {missing} are not reserved",
            expected=str(here.cluster.ports), found=before or "nothing reserved",
            remedy=f"preflight configure-ports, or: sysctl -w {KEY}={after}",
            change=Change(here.host.name, Area.PORTS, Kind.SYSCTL, KEY, before, after, here.check.id),
        )  # fmt: skip


def with_value(text: str, ports: PortSet) -> str:
    """A sysctl file's text whose last line for the key sets `ports`; every other byte is kept."""
    lines = list(_LINE.finditer(text))
    if not lines:
        newline = "\r\n" if "\r\n" in text else "\n"
        return text + (newline if text and not text.endswith("\n") else "") + f"{KEY} = {ports}{newline}"
    last = lines[-1]
    return f"{text[: last.start()]}{last[1]}{ports}{last[4]}{text[last.end() :]}"


def own_file(ports: PortSet) -> str:
    """The whole of our own file."""
    return (
        "# Written by preflight. Training jobs bind these ports themselves, so the kernel must not hand them out.\n"
        f"{KEY} = {ports}\n"
    )


def _sorts_after(path: str, other: str) -> bool:
    """Whether `sysctl --system` reads `path` after `other`: by file name, whatever the directory (sysctl.d(5))."""
    return posixpath.basename(path) > posixpath.basename(other)


@host_check("PRT102", "The HCCL and job ports are reserved after a reboot, too")
def reserved_at_boot(here: Here, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: a value set by hand is gone after a reboot, and the last file that sets the key wins over all others:
    sysctl -p reads /etc/sysctl.conf alone, so a short list there undoes every drop-in. Every file that sets the key
    therefore gets the same united set: what the files say, what is reserved now, and what the inventory wants.

    By hand: grep -rn ip_local_reserved_ports /etc/sysctl.conf /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d

    Mend: preflight configure-ports, or edit the files found; none is found: write /etc/sysctl.d/90-preflight.conf
    """
    wanted = here.cluster.ports
    files = [file for file in sysctl.reserved_files if not file.path.startswith("/run/")]  # /run is empty at boot
    united = wanted | _parse(sysctl.reserved_ports)
    for file in files:
        united |= _parse(file.value)
    short = [file for file in files if wanted - _parse(file.value)]
    for file in short:
        if file.writable:
            after = own_file(united) if file.path == OWN_FILE else with_value(file.text, united)
            yield _bad_file(here, file.path, file.text, after, f"sets {file.value or 'nothing'}", wanted)
    if not wanted or (files and files[-1] not in short) or (short and short[-1].writable):
        return
    overruled: SysctlFile | None = files[-1] if files else None
    if overruled is None:
        yield _bad_file(
            here, OWN_FILE, None, own_file(united), "does not exist, and no other file sets the key", wanted
        )
    elif _sorts_after(OWN_FILE, overruled.path) and all(file.path != OWN_FILE for file in files):
        found = f"has to overrule {overruled.path}, which sets {overruled.value or 'nothing'}"
        yield _bad_file(here, OWN_FILE, None, own_file(united), found, wanted)
    else:
        yield here.bad(
            f"{here.host.name}: {overruled.path} is read last and sets {overruled.value or 'nothing'}",
            expected=str(wanted), found=overruled.value,
            remedy=f"copy {overruled.path} to /etc/sysctl.d under the same name and set {KEY} = {united} in the copy",
        )  # fmt: skip


def _bad_file(here: Here, path: str, before: str | None, after: str, found: str, wanted: PortSet) -> Finding:
    return here.bad(
        f"{here.host.name}: after a reboot ports {wanted} are not all reserved: {path} {found}",
        expected=str(wanted), found=found,
        remedy=f"preflight configure-ports, or put {after.splitlines()[-1] if before is None else KEY} into {path}",
        change=Change(here.host.name, Area.PORTS, Kind.FILE, path, before, after, here.check.id),
    )  # fmt: skip


@host_check("PRT103", "The HCCL and job ports are free")
def free(here: Here, sockets: Sockets) -> Iterator[Finding]:
    """Why: a job that finds one of its ports taken fails to bind, often on one host only, and the other hosts wait
    for it. A listener is easy to see; an outgoing connection that happens to use the port as its own end blocks a
    bind just as well, and no list of listeners shows it. Connections that are only waiting to be forgotten
    (TIME-WAIT) are a warning: they block programs that bind without SO_REUSEADDR.

    By hand: ss -tanp '( sport >= :60000 and sport <= :60031 ) or sport = :29500'

    Mend: stop the process that is named, or move the job to other ports
    """
    for socket in sockets.on_job_ports:
        if socket.local_port not in here.cluster.ports:
            continue
        who = _who(socket)
        if socket.state in _DEAD:
            yield here.warn(
                f"{here.host.name}: port {socket.local_port} is still held by a finished connection ({who})",
                found=who, remedy="wait a minute, then look again",
            )  # fmt: skip
        elif socket.state == "LISTEN":
            yield here.bad(
                f"{here.host.name}: port {socket.local_port} is taken by {who}", expected="free", found=who,
                remedy=f"kill {socket.pid}, or stop its service" if socket.pid else "look as root: ss -tlnp",
            )  # fmt: skip
        else:
            yield here.bad(
                f"{here.host.name}: port {socket.local_port} is the local end of a connection ({who})",
                expected="free", found=who, cause="it blocks a bind, and no list of listeners shows it",
                remedy="end that connection; reserve the ports so that it does not happen again (PRT101)",
            )  # fmt: skip


def _who(socket: Socket) -> str:
    process = f"{socket.process or 'a process'} (pid {socket.pid})" if socket.pid else socket.process or ""
    if socket.state == "LISTEN":
        return process or "a process that this user may not see"
    return f"{socket.state} to {socket.remote_address}:{socket.remote_port}" + (f", {process}" if process else "")
