"""A foreign machine in the fabric that answers to the address of a device."""

import ipaddress
import json
import socket
import subprocess
import sys
from contextlib import suppress

from preflight.lab import kernel
from preflight.lab.faults.addresses import address_of, forget_neighbours
from preflight.lab.faults.fault import Fault, FaultPlace, Undo, end
from preflight.lab.kernel import NETNS, Process
from preflight.lab.lifecycle import hosts_of
from preflight.model.errors import UsageError

# Announces the address repeatedly, as many systems do at start, and at once whenever the owner has announced it.
# Otherwise the owner would regain it.
ANNOUNCER = """
import select, socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0x0806))
mac, address = s.getsockname()[4], socket.inet_aton(sys.argv[1])
reply = b"\\xff" * 6 + mac + bytes.fromhex("08060001080006040002") + mac + address + b"\\xff" * 6 + address
while True:
    s.send(reply)
    while select.select([s], [], [], 0.05)[0] and s.recv(60)[28:32] != address:
        pass
"""


def _come(place: FaultPlace) -> Undo:
    owned = address_of(place)
    other_hosts = [host for host in hosts_of(place.lab, place.directory) if host.name != place.host.name]
    if not other_hosts:
        raise UsageError("arp-duplicate shows on the other hosts; this lab has only one.")
    learner = place.lab.names.device(other_hosts[0].name, place.device)
    _plug_in(place, f"{owned.address}/{ipaddress.IPv4Network(f'0.0.0.0/{owned.netmask}').prefixlen}")
    for host in other_hosts:  # a host that never asked for the address learns nothing from an announcement
        with kernel.inside(place.lab.names.device(host.name, place.device)), suppress(OSError):
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", (owned.address, 9))
    enter = ["nsenter", f"--net={NETNS / _stranger(place)}", "--"]
    null = subprocess.DEVNULL
    announcer = subprocess.Popen(
        [*enter, sys.executable, "-S", "-c", ANNOUNCER, owned.address],
        stdin=null,
        stdout=null,
        stderr=null,
        start_new_session=True,
    )
    undo = dict(vars(Process.of(announcer.pid)))
    mac = json.loads(kernel.run("ip", "-n", _stranger(place), "-j", "link", "show", "eth0"))[0]["address"]
    try:
        kernel.wait_until(
            lambda: mac in kernel.run("ip", "-n", learner, "neigh", "show", owned.address), 10, "no host accepted it"
        )
    except Exception:
        _go(place, undo)
        raise
    return undo


def _stranger(place: FaultPlace) -> str:
    return f"{place.lab.names.prefix}stranger-{place.port}"


def _plug_in(place: FaultPlace, address: str) -> None:
    stranger, port = _stranger(place), f"x{place.port}"
    bridge = "fabric" if place.lab.spec.fabric == "switched" else f"rail{place.device}"
    kernel.ip_batch([f"netns add {stranger}"])
    kernel.set_sysctls(stranger, {"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1"})
    # A bridge takes the lowest address of its ports as its own, and the address of gateways must not change.
    kernel.ip_batch(
        [f"link add {port} address fe:ff:ff:ff:ff:ff netns {place.fabric} type veth peer name eth0 netns {stranger}"]
    )
    kernel.ip_batch([f"link set {port} master {bridge} up"], place.fabric)
    kernel.ip_batch([f"addr add {address} dev eth0", "link set eth0 up"], stranger)


def _go(place: FaultPlace, undo: Undo) -> None:
    end(place, undo)
    kernel.ip_batch([f"link del x{place.port}"], place.fabric)
    kernel.ip_batch([f"netns del {_stranger(place)}"])
    forget_neighbours(place)


FAULTS = (
    Fault(
        "arp-duplicate",
        "device",
        ("NIC106", "NPU110", "PNG101"),
        False,
        "a machine outside the cluster answers ARP for the device's address.",
        _come,
        _go,
    ),
)
