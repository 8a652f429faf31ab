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
        "fabric": "check what all devices share: the switch, its VLANs and the address plan",
        "rail": "check that the switch of rail {device} is on, with the ports of the rail in one VLAN",
        "host": "check the cables and switch ports of {0}",
        "gateway": "check the switch that holds {0}, the gateway in the inventory, and the route behind it",
        "silent": "check whether the switch blocks or limits ICMP to {0}, or correct the gateway in the inventory",
        "device": "check the cable, optical module and switch port of device {device}",
        "partition": "check the VLANs of the switch ports, and the links between the switches",
        "uplinks": "check the uplinks of {0} and their VLANs, and the switches behind them",
        "leaves": "check the uplinks and spines between {0} and {1}, and the VLAN on them",
        "hosts": "check routes, VLANs and uplinks between {0} and {1}",
        "link": "check cable, switch ports and VLAN of the two devices",
    },
    {"host": "-link -g", "partition": "-lldp -g"},
)
REACH_DIRECT = replace(
    REACH,
    fixes={
        **REACH.fixes,
        "fabric": "check the address plan, and which cable is in which device",
        "rail": "check the cables of rail {device}",
        "host": "check the cables of {0}",
        "device": "check the cable and the optical modules of device {device}",
        "partition": "check which cable is in which device",
        "hosts": "check the cables between {0} and {1}",
        "link": "check the cable, and the optical modules at both ends",
    },
    queries={"host": "-link -g"},
)
LARGE = Words(
    "large pings",
    "large packets lost on the way",
    "preflight check --mesh --ping-size {size}",
    {
        "fabric": "raise the MTU of the switch ports to the devices' MTU and the Ethernet header",
        "rail": "check the MTU of the switch of rail {device}",
        "host": "check the MTU of the switch ports of {0}",
        "gateway": "check the MTU of the interface with {0}, and of the network behind it",
        "silent": "check the MTU of the interface with {0}. Only a host behind it shows whether large packets pass",
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


_MAYBE_A_PART = "a part of the fabric is cut off: not all pairs of these devices were pinged"


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
    return summary, ". Or ".join(filter(None, (why, _MAYBE_A_PART if cause.part else "")))


# Kind of cause → which pings are lost, and what that means.
_PLAIN: Mapping[Kind, tuple[str, str]] = {
    "fabric": ("{count} between devices are lost, on all rails", "a fault that all devices share"),
    "rail": (
        "rail {device}: {count} along it are lost",
        "a fault of the whole rail, since all of its hosts are affected",
    ),
    "host": (
        "{names}: {count} from and to its devices are lost",
        "a fault of the host, since several of its devices lose pings with several peers",
    ),
    "gateway": (
        "gateway {names}: {count} to it and through it are lost",
        "the gateway does not forward, since its devices reach only each other",
    ),
    "leaves": (
        "{count} between {leaves} are lost",
        "a fault between the leaves, since the lost pings share no host or device",
    ),
    "hosts": ("{count} between {names} are lost", "a fault between the hosts, since the lost pings share no device"),
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
    leaves = " and ".join(f"leaf {name}" for name in cause.names)
    return summary.format(count=_count(cause, pings), names=cause.objects, leaves=leaves, device=cause.device), why


def _count(cause: Cause, pings: str) -> str:
    return f"{len(cause.lost)} of {cause.total} {pings}"


def _silent_gateway(cause: Cause, pings: str) -> tuple[str, str]:
    devices = {own(ping) for ping in cause.lost}
    silent_to = str(*devices) if len(devices) == 1 else f"{len(devices)} devices"
    how = f"does not answer {pings}" if cause.unanswered else f"answers only some {pings}"
    why = "the gateway refuses or limits ICMP, since the devices reach others"
    return f"gateway {cause.objects} {how} of {silent_to}", why


def _device(cause: Cause, pings: str) -> tuple[str, str]:
    device = PingEnd(cause.names[0], cause.device or 0)
    peers = {end(ping) if own(ping) == device else own(ping) for ping in cause.lost}
    lost = f"loses all {pings}" if cause.unanswered else f"loses some {pings}"
    why = "the device's own link, since it loses pings with several peers"
    return f"{device.host}: device {device.device}: {lost} with each of its {len(peers)} peers", why


def both_ways(cause: Cause, pings: str) -> str:
    """Return that the pings of a link are lost in both directions; empty for one direction."""
    is_both_ways = len(cause.lost) == cause.total > 1
    return f"all {cause.total} {pings} between {cause.objects} are lost, in both directions" if is_both_ways else ""


def _partition(cause: Cause, pings: str) -> tuple[str, str]:
    where = f"rail {cause.device}: " if cause.device is not None else ""
    part, other_members = folded(cause.members), folded(cause.others)
    summary = f"{where}partition between {part} and {other_members}, {_count(cause, pings)} are lost"
    if cause.names:
        return summary, f"a fault above {cause.objects}, since all devices behind it are cut off and no others"
    return summary, "a fault between the parts, since the lost pings share no host or device"
