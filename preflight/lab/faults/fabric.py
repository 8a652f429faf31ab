"""Faults of the fabric: the switch, its side of a device's link, and the cable between them."""

import time
from pathlib import Path

from preflight.lab import host_state, kernel
from preflight.lab.faults.fault import Fault, Place, Undo, nft
from preflight.model.errors import UsageError

SLOW_RATE = "200mbit"
SMALL_MTU, USUAL_MTU = 1400, 1500
FLAPS = 3
FLAP_SECONDS = 0.2


def _link_down(place: Place) -> Undo:
    kernel.ip_batch([f"link set {place.port} down"], place.fabric)
    return {}


def _link_up(place: Place, undo: Undo) -> None:
    kernel.ip_batch([f"link set {place.port} up"], place.fabric)
    _forget_changes(place, undo)


def _flap(place: Place) -> Undo:
    for _ in range(FLAPS):
        for state in ("down", "up"):
            kernel.ip_batch([f"link set {place.port} {state}"], place.fabric)
            time.sleep(FLAP_SECONDS)
    return {}


def _forget_changes(place: Place, _: Undo) -> None:
    """As an operator does when a link was repaired: what the device remembers of it begins anew."""
    if place.host.init is not None:
        place.hccn("-link_stat", "-c")


def _slow(place: Place) -> Undo:
    shaper = ("tbf", "rate", SLOW_RATE, "burst", "64kb", "latency", "50ms")
    kernel.run("tc", "-n", place.fabric, "qdisc", "add", "dev", place.port, "root", *shaper)
    return {}


def _fast(place: Place, _: Undo) -> None:
    kernel.run("tc", "-n", place.fabric, "qdisc", "del", "dev", place.port, "root")


def _lose(place: Place) -> Undo:
    # Requests and replies are counted apart: whoever pings, one of any three packets is lost. The rest loses less, or
    # TCP would stand still where a job would only be slow.
    nft(
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
    nft(place.fabric, f"delete table netdev loss_{place.port}\n")


def _shrink(place: Place) -> Undo:
    kernel.ip_batch([f"link set {place.port} mtu {SMALL_MTU}"], place.fabric)
    return {}


def _grow(place: Place, _: Undo) -> None:
    kernel.ip_batch([f"link set {place.port} mtu {USUAL_MTU}"], place.fabric)


def _swap_cables(place: Place) -> Undo:
    """All ports are in one switch, so every packet finds its way: only what LLDP tells is another."""
    other = place.device + 1 if place.device + 1 < place.lab.spec.devices else place.device - 1
    if other < 0 or place.lab.spec.fabric != "switched":
        raise UsageError("miswired swaps the cables of two devices of a host at the switch; this lab has no such two.")
    own, others = (f"leaf_{place.device}", f"port_{place.device}"), (f"leaf_{other}", f"port_{other}")
    was = host_state.replace(_cables(place), dict.fromkeys(own + others))
    host_state.replace(_cables(place), {key: was[value] for key, value in zip(own + others, others + own, strict=True)})
    return {"cables": was}


def _swap_back(place: Place, undo: Undo) -> None:
    host_state.replace(_cables(place), undo["cables"])


def _cables(place: Place) -> Path:
    return place.host.directory / "state" / "fabric"


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
        "link-flap",
        "device",
        ("NIC101",),
        False,
        f"its switch port has gone down and up {FLAPS} times.",
        _flap,
        _forget_changes,
    ),
    Fault(
        "small-mtu-path",
        "device",
        ("PNG102",),
        False,
        f"its switch port drops packets of more than {SMALL_MTU} bytes.",
        _shrink,
        _grow,
    ),
    Fault(
        "miswired",
        "device",
        ("NIC105",),
        True,
        "its cable and that of the next device are swapped.",
        _swap_cables,
        _swap_back,
    ),
)
