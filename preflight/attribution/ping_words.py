"""Sentences about lost pings and their causes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from preflight.attribution.culprit_words import folded
from preflight.attribution.ping_types import Cause, Kind, PingEnd, end, own


@dataclass(frozen=True)
class Words:
    """Words for the lost pings that a check finds.

    `trouble`: the class of cause, for programs. `mesh`: the command that pings every two devices. `fixes`: what to
    check for each kind of cause; "uplinks" is for a partition by leaves. `queries`: the options of hccn_tool that show
    more, for some kinds.
    """

    pings: str
    trouble: str
    mesh: str
    fixes: Mapping[str, str]
    queries: Mapping[str, str]


_DIRECT_KINDS = ("fabric", "rail", "host", "device", "partition", "hosts", "link")
REACH = Words(
    "pings",
    "pings lost on the way",
    "preflight check --mesh",
    {
        "fabric": "compare the device's address and mask with the plan. Then check the switch and its VLANs",
        "rail": "check that the switch of rail {device} is on, and that its ports are in one VLAN",
        "host": "check the cables and switch ports of {0}",
        "gateway": "check that the switch has the address {0}, and check its routes. If the address is wrong, correct "
        "it in the inventory (gateway or gateways)",
        "silent": "check whether the switch blocks or limits ICMP to {0}. If the address is wrong, correct "
        "it in the inventory (gateway or gateways)",
        "device": "check the cable, optical module and switch port of device {device}",
        "partition": "check the VLANs of the switch ports, and the links between the switches",
        "uplinks": "check the uplinks of {0}, their VLANs, and the switches behind the uplinks",
        "leaves": "check the uplinks, spines and VLANs between {0} and {1}",
        "hosts": "check the routes, VLANs and uplinks between {0} and {1}",
        "link": "check the cables, switch ports and VLANs of the two devices",
    },
    {"fabric": "-ip -g", "host": "-link -g", "partition": "-lldp -g"},
)
REACH_DIRECT = replace(
    REACH,
    fixes={
        **REACH.fixes,
        "fabric": "compare the device's address and mask with the plan. Then compare the cables with the cabling plan",
        "rail": "check the cables of rail {device}",
        "host": "check the cables of {0}",
        "device": "check the cable and the optical modules of device {device}",
        "partition": "compare the cables of these devices with the cabling plan",
        "hosts": "check the cables between {0} and {1}",
        "link": "check the cable between the two devices, and the optical modules at both ends",
    },
    queries={"fabric": "-ip -g", "host": "-link -g"},
)
LARGE = Words(
    "large pings",
    "large packets lost on the way",
    "preflight check --mesh --ping-size {size}",
    {
        "fabric": "raise the MTU of the switch ports to the MTU of the devices plus the Ethernet header",
        "rail": "check the MTU on the switch of rail {device}",
        "host": "check the MTU of the switch ports of {0}",
        "gateway": "check the MTU of the interface with address {0}, and of the network behind this gateway",
        "silent": "check the MTU of the interface with address {0}, then send large pings to a host behind it",
        "device": "check the MTU of the switch port of device {device}",
        "partition": "check the MTU of the links between the switches",
        "uplinks": "check the MTU of the uplinks of {0}",
        "leaves": "check the MTU of the uplinks and spines between {0} and {1}",
        "hosts": "check the MTU of all switch ports between {0} and {1}",
        "link": "check the MTU of the switch ports between the two devices",
    },
    {},
)
LARGE_DIRECT = replace(
    LARGE,
    fixes={**LARGE.fixes, **dict.fromkeys(_DIRECT_KINDS, "check the MTU of the devices at both ends")},
    queries=dict.fromkeys(_DIRECT_KINDS, "-mtu -g"),
)


_MAYBE_A_PART = "a part of the fabric is cut off (not all pairs of these devices were pinged)"


def fix(cause: Cause, words: Words) -> str:
    """Return what to check, after all pairs are pinged if only that decides the cause."""
    names = (cause.objects,) if cause.kind == "partition" else cause.names
    kind = "uplinks" if cause.kind == "partition" and cause.names else cause.kind
    objects = words.fixes[kind].format(*names, device=cause.device)
    return f"ping all pairs of devices. If no part of the fabric is cut off, {objects}" if cause.part else objects


def query(cause: Cause, words: Words) -> tuple[PingEnd, str]:
    """Return a device to inspect for the fix and hccn_tool's arguments for it, "" if there is no query."""
    ends = [place for ping in cause.lost for place in (own(ping), end(ping)) if not place.is_gateway]
    device = next((place for place in ends if place.host in cause.names), ends[0])
    return device, words.queries.get(cause.kind, "")


def describe(cause: Cause, pings: str) -> tuple[str, str]:
    """Return which pings are lost, and what that means."""
    summary, why = _describe(cause, pings)
    return summary, ", or ".join(filter(None, (why, _MAYBE_A_PART if cause.part else "")))


# Kind of cause → which pings are lost, and what that means.
_PLAIN: Mapping[Kind, tuple[str, str]] = {
    "fabric": ("{count} between devices were lost, on all rails", "a fault that all devices share"),
    "rail": (
        "rail {device}: {count} along this rail were lost",
        "a fault of the whole rail, because all hosts on the rail are affected",
    ),
    "host": (
        "{names}: {count} from and to the devices on this host were lost",
        "a fault of the host, because several devices on the host lose pings with several peers",
    ),
    "gateway": (
        "gateway {names}: {count} to and through this gateway were lost",
        "the gateway does not forward packets (its devices can reach only each other)",
    ),
    "leaves": (
        "{count} between {leaves} were lost",
        "a fault between the leaves, because the lost pings have no host or device in common",
    ),
    "hosts": (
        "{count} between {names} were lost",
        "a fault between the hosts, because the lost pings have no device in common",
    ),
}


def _describe(cause: Cause, pings: str) -> tuple[str, str]:
    match cause.kind:
        case "silent":
            return _silent_gateway(cause, pings)
        case "device":
            return _device(cause, pings)
        case "link":
            return "", ""
        case "partition":
            return _partition(cause, pings)
    summary, why = _PLAIN[cause.kind]
    if cause.kind == "gateway" and pings == REACH.pings and cause.unanswered:
        why = "the gateway is down, or its address in the inventory is wrong"
    leaves = " and ".join(f"leaf {name}" for name in cause.names)
    return summary.format(count=_count(cause, pings), names=cause.objects, leaves=leaves, device=cause.device), why


def _count(cause: Cause, pings: str) -> str:
    return f"{len(cause.lost)} of {cause.total} {pings}"


def _silent_gateway(cause: Cause, pings: str) -> tuple[str, str]:
    devices = {own(ping) for ping in cause.lost}
    silent_to = str(*devices) if len(devices) == 1 else f"{len(devices)} devices"
    how = f"does not answer {pings}" if cause.unanswered else f"answers only some {pings}"
    why = "the gateway blocks or limits ICMP (the devices can reach other devices)"
    return f"gateway {cause.objects} {how} from {silent_to}", why


def _device(cause: Cause, pings: str) -> tuple[str, str]:
    device = PingEnd(cause.names[0], cause.device or 0)
    lost = f"all {pings}" if cause.unanswered else f"{_loss(cause)} of the packets in {pings}"
    link = "a smaller MTU on the link of this device" if pings == LARGE.pings else "the link of this device"
    why = f"{link}, because pings with several peers were lost"
    return f"{device.host}: device {device.device} lost {lost} to and from {cause.peers} peers", why


def _loss(cause: Cause) -> str:
    """Return the share of packets that were lost, as "12%"."""
    percent = 100 * (1 - cause.answered / cause.packets)
    return f"{percent:.0f}%" if percent >= 1 else f"{percent:.1f}%"


def both_ways(cause: Cause, pings: str) -> str:
    """Return that the pings of a link are lost in both directions; empty for one direction."""
    is_both_ways = len(cause.lost) == cause.total > 1
    if not is_both_ways:
        return ""
    if cause.total == 2:
        return f"both {pings} between {cause.objects} were lost, one in each direction"
    return f"all {cause.total} {pings} between {cause.objects} were lost, in both directions"


def _partition(cause: Cause, pings: str) -> tuple[str, str]:
    where = f"rail {cause.device}: " if cause.device is not None else ""
    part, other_members = folded(cause.members), folded(cause.others)
    summary = f"{where}{part} and {other_members} cannot reach each other ({_count(cause, pings)} were lost)"
    if cause.names:
        return (
            summary,
            f"a fault upstream of {cause.objects}, because exactly the devices behind {cause.objects} are cut off",
        )
    return summary, "a fault between the two parts, because the lost pings have no host or device in common"
