"""The faults a lab can have: one table, and for each fault how it is made and how it is undone.

A fault acts on the real thing wherever there is one (a link, a queue, a rule, a process). `break` records in the lab's
state what it found, so that `mend` brings exactly that back. Neither checks nor probe know of any of this.
"""

import difflib
import ipaddress
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from preflight.lab import kernel, network, state, vendor
from preflight.lab.addresses import HCCL_BASE, HCCL_COUNT, JOB_PORT
from preflight.lab.host import Host
from preflight.lab.kernel import Process
from preflight.lab.lifecycle import hosts_of, require_root, selected
from preflight.lab.spec import fabric_port
from preflight.lab.state import Break, State
from preflight.model.errors import PreflightError, UsageError

Undo = dict[str, Any]

SLOW_RATE = "200mbit"
WRONG_MASK = "255.255.0.0"
OTHER_DRIVER = "22.0.4"
FIREWALL_TABLE = "inet lab_block"
_JOB_PORTS = f"{{ {JOB_PORT}, {HCCL_BASE}-{HCCL_BASE + HCCL_COUNT - 1} }}"
LISTENER = "import socket, time; s = socket.create_server(('0.0.0.0', {port})); time.sleep(1e9)"


@dataclass(frozen=True)
class Place:
    """Where a fault is made."""

    lab: State
    directory: Path
    host: Host
    device: int

    @property
    def port(self) -> str:
        """The device's port on the fabric switch."""
        return fabric_port(self.host.name, self.device)

    @property
    def fabric(self) -> str:
        """The switch's namespace."""
        return self.lab.names.fabric

    def hccn(self, *words: str) -> str:
        """Ask the host's hccn_tool about the device; the change, if it is one, lands in /etc/hccn.conf too."""
        return self.host.run("hccn_tool", "-i", str(self.device), *words)

    @property
    def hccn_conf(self) -> Path:
        """The host's /etc/hccn.conf, seen from outside."""
        return self.host.root / "etc" / "hccn.conf"


@dataclass(frozen=True)
class Fault:
    """One kind of fault. `stand_in`: it acts on something the lab only stands in for."""

    name: str
    scope: Literal["host", "device"]
    seen_by: tuple[str, ...]
    stand_in: bool
    what: str
    make: Callable[[Place], Undo]
    undo: Callable[[Place, Undo], None]


def describe() -> list[dict[str, Any]]:
    """The table as `lab faults -o json` prints it."""
    keys = ("name", "scope", "seen_by", "stand_in", "what")
    return [{key: getattr(fault, key) for key in keys} for fault in FAULTS]


def break_it(name: str, directory: Path, host: str | None, device: int | None) -> str:
    """Make a fault and return one sentence about it; raises UsageError for what cannot be broken."""
    require_root()
    fault, directory = _fault(name), directory.resolve()
    with state.locked(_existing(directory)):
        lab = state.load(directory)
        place = _place(fault, lab, directory, host, device)
        entry = Break(name, place.host.name, place.device if fault.scope == "device" else None, {})
        if any((b.fault, b.host, b.device) == (entry.fault, entry.host, entry.device) for b in lab.breaks):
            raise UsageError(f"{name} on {_where(entry)} is broken already; `preflight lab mend {name}` undoes it.")
        entry = Break(entry.fault, entry.host, entry.device, fault.make(place))
        lab.with_breaks((*lab.breaks, entry)).save(directory)
    return f"{name} on {_where(entry)}: {fault.what}"


def mend(name: str | None, directory: Path) -> list[str]:
    """Undo all faults, or those of one name, the latest first; return a sentence for each."""
    require_root()
    if name is not None:
        _fault(name)
    directory = directory.resolve()
    said = []
    with state.locked(_existing(directory)):
        lab = state.load(directory)
        hosts = {host.name: host for host in hosts_of(lab, directory)}
        for entry in reversed(lab.breaks):
            if name in (None, entry.fault):
                place = Place(lab, directory, hosts[entry.host], entry.device or 0)
                _fault(entry.fault).undo(place, entry.undo)
                lab = lab.with_breaks(tuple(other for other in lab.breaks if other is not entry))
                lab.save(directory)
                said.append(f"{entry.fault} on {_where(entry)} is mended.")
    return said or [f"nothing to mend: {name or 'no fault'} is not broken." if name else "nothing is broken."]


def _existing(directory: Path) -> Path:
    state.load(directory)
    return directory


def _fault(name: str) -> Fault:
    names = [fault.name for fault in FAULTS]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        raise UsageError(f"there is no fault {name!r}; {f'did you mean {near[0]}?' if near else ', '.join(names)}")
    return FAULTS[names.index(name)]


def _place(fault: Fault, lab: State, directory: Path, host: str | None, device: int | None) -> Place:
    where = selected(hosts_of(lab, directory), host)
    if fault.scope == "host" and device is not None:
        raise UsageError(f"{fault.name} befalls a host, not a device: leave --device out.")
    if fault.scope == "device" and not 0 <= (device or 0) < lab.spec.devices:
        raise UsageError(f"{where.name} has no device {device or 0}; the lab has {lab.spec.devices} a host.")
    if fault.name == "driver-version" and not lab.spec.is_npu:
        raise UsageError(f"a lab of product {lab.spec.product} has no driver stand-in.")
    return Place(lab, directory, where, device or 0)


def _where(entry: Break) -> str:
    return entry.host if entry.device is None else f"{entry.host}/{entry.device}"


# ---- fabric: the switch's side of a device's link


def _link_down(place: Place) -> Undo:
    kernel.ip_batch([f"link set {place.port} down"], place.fabric)
    return {}


def _link_up(place: Place, _: Undo) -> None:
    kernel.ip_batch([f"link set {place.port} up"], place.fabric)


def _slow(place: Place) -> Undo:
    shaper = ("tbf", "rate", SLOW_RATE, "burst", "64kb", "latency", "50ms")
    kernel.run("tc", "-n", place.fabric, "qdisc", "add", "dev", place.port, "root", *shaper)
    return {}


def _fast(place: Place, _: Undo) -> None:
    kernel.run("tc", "-n", place.fabric, "qdisc", "del", "dev", place.port, "root")


def _lose(place: Place) -> Undo:
    # Requests and replies are counted apart: whoever pings, one of any three packets is lost. The rest loses less, or
    # TCP would stand still where a job would only be slow.
    _nft(
        place.fabric,
        f"table netdev loss_{place.port} {{\n chain egress {{\n"
        f'  type filter hook egress device "{place.port}" priority 0; policy accept;\n'
        "  icmp type echo-request numgen inc mod 3 1 drop\n"
        "  icmp type echo-reply numgen inc mod 3 1 drop\n"
        "  ip protocol != icmp numgen random mod 100 < 5 drop\n"
        " }\n}\n",
    )
    return {}


def _lose_no_more(place: Place, _: Undo) -> None:
    _nft(place.fabric, f"delete table netdev loss_{place.port}\n")


def _nft(netns: str, rules: str) -> None:
    kernel.run("nsenter", f"--net={kernel.NETNS / netns}", "--", "nft", "-f", "-", stdin=rules)


# ---- the device's own settings, by the host's hccn_tool


@dataclass(frozen=True)
class _Address:
    address: str
    netmask: str


def _address(place: Place) -> _Address:
    try:
        lines = place.hccn("-ip", "-g").splitlines()
    except PreflightError:
        raise UsageError(f"{place.host.name}/{place.device} has no address yet; configure it first.") from None
    values = dict(line.split(":", 1) for line in lines)
    return _Address(values["ipaddr"], values["netmask"])


def _set_address(place: Place, to: _Address) -> None:
    place.hccn("-ip", "-s", "address", to.address, "netmask", to.netmask)


def _remember_conf(place: Place, change: Callable[[], object]) -> Undo:
    """Do a change; return /etc/hccn.conf before and after it (null: not there)."""
    before = _read(place.hccn_conf)
    change()
    return {"conf_before": before, "conf_after": _read(place.hccn_conf)}


def _restore_conf(place: Place, undo: Undo, change: Callable[[], object] = lambda: None) -> None:
    """Undo a change; then put the file's old bytes back, unless somebody has written to it in between."""
    untouched = _read(place.hccn_conf) == undo["conf_after"]
    change()
    if untouched and undo["conf_before"] is None:
        place.hccn_conf.unlink()
    elif untouched:
        place.hccn_conf.write_text(undo["conf_before"])


def _read(path: Path) -> str | None:
    with suppress(FileNotFoundError):
        return path.read_text()
    return None


def _wrong_mask(place: Place) -> Undo:
    was = _address(place)
    return {**vars(was), **_remember_conf(place, lambda: _set_address(place, _Address(was.address, WRONG_MASK)))}


def _duplicate(place: Place) -> Undo:
    was = _address(place)
    others = [host for host in hosts_of(place.lab, place.directory) if host.name != place.host.name]
    if not others:
        raise UsageError("duplicate-address takes the address of another host; this lab has only one.")
    after = next((host for host in others if host.number > place.host.number), others[0])
    theirs = _address(Place(place.lab, place.directory, after, place.device))
    return {**vars(was), **_remember_conf(place, lambda: _set_address(place, _Address(theirs.address, was.netmask)))}


def _old_address(place: Place, undo: Undo) -> None:
    _restore_conf(place, undo, lambda: _set_address(place, _Address(undo["address"], undo["netmask"])))
    # Others have learnt where the address is by now; without this the fault would outlive its mending by a minute.
    for namespace in (place.fabric, *(n for n in kernel.namespaces(place.lab.names.prefix) if "-d" in n)):
        kernel.run("ip", "-n", namespace, "neigh", "flush", "all")


def _tls_off(place: Place) -> Undo:
    switch = place.hccn("-tls", "-g").partition("switch[")[2][0]
    return {"switch": switch, **_remember_conf(place, lambda: place.hccn("-tls", "-s", "enable", "0"))}


def _tls_as_before(place: Place, undo: Undo) -> None:
    _restore_conf(place, undo, lambda: place.hccn("-tls", "-s", "enable", undo["switch"]))


def _stale_conf(place: Place) -> Undo:
    key = f"address_{place.device}="
    lines = (_read(place.hccn_conf) or "").splitlines(keepends=True)
    if not any(line.startswith(key) for line in lines):
        raise UsageError(f"{place.host.name} has no {key.rstrip('=')} in /etc/hccn.conf yet; configure it first.")
    stale = ipaddress.IPv4Address(_address(place).address) + 100
    edited = "".join(f"{key}{stale}\n" if line.startswith(key) else line for line in lines)
    return _remember_conf(place, lambda: place.hccn_conf.write_text(edited))


# ---- the host


def _other_driver(place: Place) -> Undo:
    path = place.host.root / vendor.VERSION_INFO.relative_to("/")
    was = path.read_text()
    driver = vendor.VERSIONS[place.lab.spec.product].driver
    path.write_text(was.replace(driver, OTHER_DRIVER))
    return {"text": was}


def _same_driver(place: Place, undo: Undo) -> None:
    (place.host.root / vendor.VERSION_INFO.relative_to("/")).write_text(undo["text"])


def _take_port(place: Place) -> Undo:
    init = place.host.running()
    # --fork is implied by entering the PID namespace: the listener is nsenter's child.
    entered = subprocess.Popen(
        ["nsenter", "-t", str(init.pid), "-a", "--", sys.executable, "-S", "-c", LISTENER.format(port=HCCL_BASE)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        kernel.wait_until(lambda: place.host.listens(HCCL_BASE), 10, f"nothing could take port {HCCL_BASE}")
    except Exception:
        entered.kill()
        raise
    listener = kernel.processes_below(Process.of(entered.pid))[-1]
    return {"pid": listener.pid, "started": listener.started}


def _free_port(_: Place, undo: Undo) -> None:
    kernel.kill_and_wait([Process(undo["pid"], undo["started"])])


def _block(place: Place) -> Undo:
    _nft(
        place.host.netns,
        f"table {FIREWALL_TABLE} {{\n chain input {{\n  type filter hook input priority filter - 10; policy accept;\n"
        f'  iifname != "lo" ct state new tcp dport {_JOB_PORTS} drop\n }}\n}}\n',
    )
    return {}


def _unblock(place: Place, _: Undo) -> None:
    _nft(place.host.netns, f"delete table {FIREWALL_TABLE}\n")


def _filter_at_switch(place: Place) -> Undo:
    _nft(
        place.lab.names.management,
        f"table bridge acl_{place.host.name} {{\n chain forward {{\n"
        "  type filter hook forward priority 0; policy accept;\n"
        f'  oifname "{place.host.name}" tcp dport {_JOB_PORTS} drop\n }}\n}}\n',
    )
    return {}


def _filter_no_more(place: Place, _: Undo) -> None:
    _nft(place.lab.names.management, f"delete table bridge acl_{place.host.name}\n")


def _kill_host(place: Place) -> Undo:
    init = place.host.running()
    network.set_host_power(place.lab.spec, place.lab.names, place.host.name, on=False)
    kernel.kill_and_wait([init])
    return {}


def _revive_host(place: Place, _: Undo) -> None:
    network.set_host_power(place.lab.spec, place.lab.names, place.host.name, on=True)
    place.host.start(place.directory / "standins", place.directory)
    place.host.wait()


def _hang_sshd(place: Place) -> Undo:
    stopped = list(_sshd(place.host))
    for process in stopped:
        process.send(signal.SIGSTOP)
    return {"processes": [vars(process) for process in stopped]}


def _wake_sshd(_: Place, undo: Undo) -> None:
    for process in undo["processes"]:
        Process(**process).send(signal.SIGCONT)


def _sshd(host: Host) -> Iterator[Process]:
    """The listener and the servers of open connections."""
    for process in kernel.processes_below(host.running()):
        with suppress(OSError):
            if Path(f"/proc/{process.pid}/comm").read_text().strip() == "sshd":
                yield process


FAULTS = (
    Fault(
        "link-down",
        "device",
        ("NPU107", "PNG101", "PRB101"),
        False,
        "its switch port is down, so its link is.",
        _link_down,
        _link_up,
    ),
    Fault(
        "wrong-mask",
        "device",
        ("NPU103",),
        False,
        f"its netmask is {WRONG_MASK}.",
        _wrong_mask,
        _old_address,
    ),
    Fault(
        "duplicate-address",
        "device",
        ("NPU102", "NPU101", "NPU110", "PNG101"),
        False,
        "it has the address of the same device of another host.",
        _duplicate,
        _old_address,
    ),
    Fault(
        "tls-off",
        "device",
        ("NPU108", "PRB101"),
        True,
        "its TLS switch is off; all others are on.",
        _tls_off,
        _tls_as_before,
    ),
    Fault(
        "stale-hccn-conf",
        "device",
        ("NPU104",),
        True,
        "/etc/hccn.conf holds another address than the device.",
        _stale_conf,
        _restore_conf,
    ),
    Fault(
        "slow-link",
        "device",
        ("PRB103",),
        False,
        f"its switch port passes {SLOW_RATE}.",
        _slow,
        _fast,
    ),
    Fault(
        "packet-loss",
        "device",
        ("PNG101",),
        False,
        "its switch port loses every third echo packet and 5 % of the rest.",
        _lose,
        _lose_no_more,
    ),
    Fault(
        "port-taken",
        "host",
        ("PRT103",),
        False,
        f"a process listens on port {HCCL_BASE}.",
        _take_port,
        _free_port,
    ),
    Fault(
        "firewall-block",
        "host",
        ("FWL101",),
        False,
        "a rule drops what comes to the ports of jobs.",
        _block,
        _unblock,
    ),
    Fault(
        "switch-acl",
        "host",
        ("FWL104",),
        False,
        "the switch drops what goes to its ports of jobs.",
        _filter_at_switch,
        _filter_no_more,
    ),
    Fault(
        "host-dead",
        "host",
        ("HST101",),
        False,
        "it is off: no process, no link.",
        _kill_host,
        _revive_host,
    ),
    Fault(
        "sshd-hung",
        "host",
        ("HST101",),
        False,
        "its sshd is stopped: connections are accepted and never answered.",
        _hang_sshd,
        _wake_sshd,
    ),
    Fault(
        "driver-version",
        "host",
        ("VER101",),
        True,
        f"its driver is {OTHER_DRIVER}.",
        _other_driver,
        _same_driver,
    ),
)
