"""Faults of the fabric: the switch, its end of a device's link, and the cable between them."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from preflight.lab import host_state, kernel, network
from preflight.lab.faults.addresses import address_of
from preflight.lab.faults.fault import LOSS, Fault, FaultPlace, Undo, nft, shape, unshape
from preflight.lab.lifecycle import hosts_of
from preflight.model.errors import UsageError

SLOW_RATE = "200mbit"
USUAL_SEGMENTS = 65535  # Linux' default, of a packet that has not been cut yet
SMALL_MTU = 1400
FLAPS = 3
FLAP_SECONDS = 0.2


def _link_down(place: FaultPlace) -> Undo:
    _switch(place, on=False)
    return {}


def _link_up(place: FaultPlace, undo: Undo) -> None:
    _switch(place, on=True)
    _forget_changes(place, undo)


def _switch(place: FaultPlace, on: bool) -> None:
    network.set_light(place.lab.spec, place.lab.names, place.host.name, [place.device], on)


def _flap(place: FaultPlace) -> Undo:
    for _ in range(FLAPS):
        for on in (False, True):
            _switch(place, on)
            time.sleep(FLAP_SECONDS)
    return {}


def _forget_changes(place: FaultPlace, _: Undo) -> None:
    """Clear the link history of the devices at both ends, as an operator does after a link was repaired."""
    ends = hosts_of(place.lab, place.directory) if place.lab.spec.fabric == "direct" else [place.host]
    for host in ends:
        if host.init is not None:
            replace(place, host=host).hccn("-link_stat", "-c")


def _slow_in(place: FaultPlace) -> Undo:
    shape(place.fabric, place.port, SLOW_RATE)
    return {}


def _fast_in(place: FaultPlace, _: Undo) -> None:
    unshape(place.fabric, place.port)


def _slow_out(place: FaultPlace) -> Undo:
    """Slow down what the device sends. Every device NIC is shaped already (see network.py), but less."""
    shape(_netns(place), f"eth{place.device}", SLOW_RATE)
    return {}


def _fast_out(place: FaultPlace, _: Undo) -> None:
    network.hold_to_rate(_netns(place), place.device)


def _netns(place: FaultPlace) -> str:
    return place.lab.names.device(place.host.name, place.device)


# Requests and replies are counted separately, so every ping loses one of any three packets. Other traffic loses less,
# or TCP would stall where a job would only be slow.
_SOME = """\
  icmp type echo-request numgen inc mod 3 1 drop
  icmp type echo-reply numgen inc mod 3 1 drop
  ip protocol != icmp numgen random mod 100 < 5 drop"""
# By the length in the IP header. A bridge port's own MTU would let through what TCP hands over unsegmented (GSO).
_LARGE = f"  ip length > {SMALL_MTU} drop"


def _filter(netns: str, table: str, interface: str, hook: str, rules: str) -> None:
    """Load rules for what an interface receives (hook `ingress`) or sends (`egress`)."""
    nft(
        netns,
        f"table netdev {table} {{\n chain {hook} {{\n"
        f'  type filter hook {hook} device "{interface}" priority 0; policy accept;\n{rules}\n }}\n}}\n',
    )


def _drop(what: str, rules: str) -> Callable[[FaultPlace], Undo]:
    """Return a function that makes the switch drop some of what it sends to the device."""

    def make(place: FaultPlace) -> Undo:
        table = f"{what}_{place.port}"
        _filter(place.fabric, table, place.port, "egress", rules)
        return {"table": table}

    return make


def _drop_no_more(place: FaultPlace, undo: Undo) -> None:
    nft(place.fabric, f"delete table netdev {undo['table']}\n")


def _lose_in(place: FaultPlace) -> Undo:
    """Lose packets behind the switch port, which cuts what TCP hands over unsegmented.

    The loss of one packet of wire size hurts TCP. The loss of 64 KiB at once hardly does.
    """
    kernel.ip_batch([f"link set {place.port} gso_max_segs 1"], place.fabric)
    _filter(_netns(place), "loss", f"eth{place.device}", "ingress", _some(place.percent))
    return {}


def _lose_no_more_in(place: FaultPlace, _: Undo) -> None:
    nft(_netns(place), "delete table netdev loss\n")
    kernel.ip_batch([f"link set {place.port} gso_max_segs {USUAL_SEGMENTS}"], place.fabric)


def _lose_out(place: FaultPlace) -> Undo:
    """Lose packets behind the device, at the switch port, as `_lose_in` does in the other direction."""
    kernel.ip_batch([f"link set eth{place.device} gso_max_segs 1"], _netns(place))
    table = f"loss_{place.port}"
    _filter(place.fabric, table, place.port, "ingress", _some(place.percent))
    return {"table": table}


def _lose_no_more_out(place: FaultPlace, undo: Undo) -> None:
    nft(place.fabric, f"delete table netdev {undo['table']}\n")
    kernel.ip_batch([f"link set eth{place.device} gso_max_segs {USUAL_SEGMENTS}"], _netns(place))


def _some(percent: int) -> str:
    return f"  numgen random mod 100 < {percent} drop"


def _drop_to_next(place: FaultPlace) -> Undo:
    """Drop what the device sends to the same device on the next host, at that device."""
    hosts = [host for host in hosts_of(place.lab, place.directory) if host.name != place.host.name]
    if not hosts:
        raise UsageError("one-way-drop needs another host; this lab has only one.")
    following = next((host for host in hosts if host.number > place.host.number), hosts[0])
    namespace = place.lab.names.device(following.name, place.device)
    rule = f"  ip saddr {address_of(place).address} drop"
    _filter(namespace, "one_way", f"eth{place.device}", "ingress", rule)
    return {"namespace": namespace}


def _pass_to_next(_: FaultPlace, undo: Undo) -> None:
    nft(undo["namespace"], "delete table netdev one_way\n")


def _siblings_away(place: FaultPlace) -> Undo:
    kernel.ip_batch([f"link set {place.port} down"], place.lab.names.hccs)
    return {}


def _siblings_back(place: FaultPlace, _: Undo) -> None:
    kernel.ip_batch([f"link set {place.port} up"], place.lab.names.hccs)


def _swap_cables(place: FaultPlace) -> Undo:
    """Swap what LLDP reports for two cables. Packets are not affected, since all ports are in one switch."""
    neighbour = place.device + 1 if place.device + 1 < place.lab.spec.devices else place.device - 1
    if neighbour < 0 or place.lab.spec.fabric != "switched" or place.lab.spec.leaves > 1:
        raise UsageError("miswired swaps the cables of two devices of a host on two leaves; this lab has no such two.")
    own_keys, neighbour_keys = (
        (f"leaf_{place.device}", f"port_{place.device}"),
        (f"leaf_{neighbour}", f"port_{neighbour}"),
    )
    was = host_state.replace(_cables(place), dict.fromkeys(own_keys + neighbour_keys))
    host_state.replace(
        _cables(place),
        {key: was[value] for key, value in zip(own_keys + neighbour_keys, neighbour_keys + own_keys, strict=True)},
    )
    return {"cables": was}


def _swap_back(place: FaultPlace, undo: Undo) -> None:
    host_state.replace(_cables(place), undo["cables"])


def _cables(place: FaultPlace) -> Path:
    return place.host.directory / "state" / "fabric"


FAULTS = (
    Fault(
        "link-down",
        "device",
        ("NPU107", "PNG101", "PRB101"),
        False,
        "the switch port is down or the fibre is cut, so the device has no link.",
        _link_down,
        _link_up,
    ),
    Fault(
        "slow-link",
        "device",
        ("PRB103",),
        False,
        f"the switch port limits traffic to the device to {SLOW_RATE}.",
        _slow_in,
        _fast_in,
    ),
    Fault(
        "slow-link-out",
        "device",
        ("PRB103",),
        False,
        f"the device sends at most {SLOW_RATE}.",
        _slow_out,
        _fast_out,
    ),
    Fault(
        "packet-loss",
        "device",
        ("PNG101",),
        False,
        "the switch port loses every third echo packet and 5 % of all others.",
        _drop("loss", _SOME),
        _drop_no_more,
    ),
    Fault(
        "random-loss",
        "device",
        ("PNG101", "PRB103", "PRB101", "PRB113"),
        False,
        f"packets to the device are lost at random: {LOSS} %, or the share that --percent gives.",
        _lose_in,
        _lose_no_more_in,
    ),
    Fault(
        "random-loss-out",
        "device",
        ("PNG101", "PRB103", "PRB101", "PRB113"),
        False,
        f"packets from the device are lost at random: {LOSS} %, or the share that --percent gives.",
        _lose_out,
        _lose_no_more_out,
    ),
    Fault(
        "one-way-drop",
        "device",
        ("PNG101", "PRB101"),
        False,
        "all packets from the device to the same device on the next host are lost.",
        _drop_to_next,
        _pass_to_next,
    ),
    Fault(
        "link-flap",
        "device",
        ("NIC101",),
        False,
        f"the switch port went down and up {FLAPS} times.",
        _flap,
        _forget_changes,
    ),
    Fault(
        "small-mtu-path",
        "device",
        ("PNG102",),
        False,
        f"the switch port drops packets of more than {SMALL_MTU} bytes.",
        _drop("large", _LARGE),
        _drop_no_more,
    ),
    Fault(
        "miswired",
        "device",
        ("NIC105",),
        True,
        "the cables of the device and the next one are swapped.",
        _swap_cables,
        _swap_back,
    ),
    Fault(
        "hccs-down",
        "device",
        ("PRB101", "PRB113"),
        False,
        "the HCCS link to the other devices of the host is down.",
        _siblings_away,
        _siblings_back,
    ),
)
