"""Faults of a host: its ports, its firewall, its power."""

import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from preflight.lab import kernel, network
from preflight.lab.addresses import HCCL_BASE, HCCL_COUNT, JOB_PORT
from preflight.lab.faults.fault import Fault, FaultPlace, Undo, end, nft
from preflight.lab.host import LabHost
from preflight.lab.kernel import Process

FIREWALL_TABLE = "inet lab_block"
_JOB_PORTS = f"{{ {JOB_PORT}, {HCCL_BASE}-{HCCL_BASE + HCCL_COUNT - 1} }}"
LISTENER = "import socket, time; s = socket.create_server(('0.0.0.0', {port})); time.sleep(1e9)"


def _take_port(place: FaultPlace) -> Undo:
    listener = place.start(sys.executable, "-S", "-c", LISTENER.format(port=HCCL_BASE))
    try:
        kernel.wait_until(lambda: place.host.listens(HCCL_BASE), 10, f"nothing could take port {HCCL_BASE}")
    except Exception:
        end(place, listener)
        raise
    return listener


def _block(place: FaultPlace) -> Undo:
    nft(
        place.host.netns,
        f"table {FIREWALL_TABLE} {{\n chain input {{\n  type filter hook input priority filter - 10; policy accept;\n"
        f'  iifname != "lo" ct state new tcp dport {_JOB_PORTS} drop\n }}\n}}\n',
    )
    return {}


def _unblock(place: FaultPlace, _: Undo) -> None:
    nft(place.host.netns, f"delete table {FIREWALL_TABLE}\n")


def _filter_at_switch(place: FaultPlace) -> Undo:
    nft(
        place.lab.names.management,
        f"table bridge acl_{place.host.name} {{\n chain forward {{\n"
        "  type filter hook forward priority 0; policy accept;\n"
        f'  oifname "{place.host.name}" tcp dport {_JOB_PORTS} drop\n }}\n}}\n',
    )
    return {}


def _filter_no_more(place: FaultPlace, _: Undo) -> None:
    nft(place.lab.names.management, f"delete table bridge acl_{place.host.name}\n")


def _kill_host(place: FaultPlace) -> Undo:
    init = place.host.running()
    network.set_host_power(place.lab.spec, place.lab.names, place.host.name, on=False)
    kernel.kill_and_wait([init])
    return {}


def _revive_host(place: FaultPlace, _: Undo) -> None:
    network.set_host_power(place.lab.spec, place.lab.names, place.host.name, on=True)
    place.host.start(place.directory / "standins", place.directory)
    place.host.wait()


def _hang_sshd(place: FaultPlace) -> Undo:
    stopped = list(_sshd(place.host))
    for process in stopped:
        process.send(signal.SIGSTOP)
    return {"processes": [vars(process) for process in stopped]}


def _wake_sshd(_: FaultPlace, undo: Undo) -> None:
    for process in undo["processes"]:
        Process(**process).send(signal.SIGCONT)


def _sshd(host: LabHost) -> Iterator[Process]:
    """Yield the listening sshd and the servers of open connections."""
    for process in kernel.processes_below(host.running()):
        with suppress(OSError):
            if Path(f"/proc/{process.pid}/comm").read_text().strip() == "sshd":
                yield process


FAULTS = (
    Fault(
        "port-taken",
        "host",
        ("PRT103",),
        False,
        f"a process listens on port {HCCL_BASE}.",
        _take_port,
        end,
    ),
    Fault(
        "firewall-block",
        "host",
        ("FWL101",),
        False,
        "a firewall rule drops packets to the job ports of the host.",
        _block,
        _unblock,
    ),
    Fault(
        "switch-acl",
        "host",
        ("FWL104",),
        False,
        "the switch drops packets to the job ports of the host.",
        _filter_at_switch,
        _filter_no_more,
    ),
    Fault(
        "host-dead",
        "host",
        ("HST101",),
        False,
        "the host is off, without any process or link.",
        _kill_host,
        _revive_host,
    ),
    Fault(
        "sshd-hung",
        "host",
        ("HST101",),
        False,
        "sshd is stopped: the host accepts connections and never answers.",
        _hang_sshd,
        _wake_sshd,
    ),
)
