"""Sentences about lost pings and their causes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from preflight.attribution.culprit_words import folded
from preflight.attribution.ping_types import Cause, Kind, PingEnd, end, own


@dataclass(frozen=True)
class Words:
    """Words for the lost pings that a check finds.

    `trouble`: the class of cause, for programs. `mesh`: the command that pings every two devices. `mend`: what to check
    for each kind of cause; "uplinks" is for a partition by leaves.
    """

    pings: str
    trouble: str
    mesh: str
    mend: Mapping[str, str]


def _direct(words: Words, **mend: str) -> Words:
    """Return the words for hosts without a switch: two servers joined by cables."""
    return replace(words, mend={**words.mend, **mend})


_BOTH_ENDS = "the MTU of the devices at both ends: hccn_tool -i 0 -mtu -g"
REACH = Words(
    "pings",
    "pings lost on the way",
    "preflight check --mesh",
    {
        "fabric": "what all devices have in common: the switch, its VLANs, or the plan of their addresses",
        "rail": "the switch of rail {device}: is it on, and are the ports of this rail in one VLAN?",
        "host": "cables and switch ports of {0}; on it: hccn_tool -i 0 -link -g",
        "gateway": "the switch that should hold {0}, or the gateway in the inventory; then the way behind it",
        "silent": "does the switch refuse ICMP to {0}, or limit it? else: the gateway in the inventory",
        "device": "cable, optical module and switch port of device {device}",
        "partition": "the VLANs of their switch ports, and what lies between their switches: hccn_tool -i 0 -lldp -g "
        "names a device's",
        "uplinks": "the uplinks of {0} and the switches that they lead to, with the VLANs on them",
        "leaves": "the uplinks and the spines between {0} and {1}, and the VLAN on them",
        "hosts": "routes, VLANs and uplinks between {0} and {1}",
        "link": "cable, switch port, VLAN",
    },
)
REACH_DIRECT = _direct(
    REACH,
    fabric="what all devices have in common: the plan of their addresses, or which cable is in which device",
    rail="the cables of rail {device}",
    host="the cables of {0}; on it: hccn_tool -i 0 -link -g",
    device="cable and optical modules of device {device}",
    partition="which cable is in which device",
    hosts="the cables between {0} and {1}",
    link="the cable, and the optical modules at both ends",
)
LARGE = Words(
    "large pings",
    "large packets lost on the way",
    "preflight check --mesh --ping-size {size}",
    {
        "fabric": "the MTU of the switches' ports: it has to hold the devices' MTU and the Ethernet header",
        "rail": "the MTU of the switch of rail {device}",
        "host": "the MTU of the switch ports of {0}",
        "gateway": "the MTU of the interface with {0}, and of what lies behind it",
        "silent": "the MTU of the interface with {0}; whether packets through it pass, only a host behind it tells",
        "device": "the MTU of the switch port of device {device}",
        "partition": "the MTU of what lies between their switches",
        "uplinks": "the MTU of the uplinks of {0}",
        "leaves": "the MTU of the uplinks and the spines between {0} and {1}",
        "hosts": "the MTU of all switch ports between {0} and {1}",
        "link": "the MTU of the switch ports between them",
    },
)
LARGE_DIRECT = _direct(
    LARGE, **dict.fromkeys(("fabric", "rail", "host", "device", "partition", "hosts", "link"), _BOTH_ENDS)
)


_MAYBE_A_PART = "or a part that is cut off: of who is named here not every two were tried with each other"


def mend(cause: Cause, words: Words) -> str:
    """Return what to check, after the command that pings more pairs, if that decides the cause."""
    names = (cause.objects,) if cause.kind == "partition" else cause.names
    kind = "uplinks" if cause.kind == "partition" and cause.names else cause.kind
    objects = words.mend[kind].format(*names, device=cause.device)
    return f"{words.mesh.format(size=cause.lost[0].size)} tells; {objects}" if cause.part else objects


def said(cause: Cause, pings: str) -> tuple[str, str]:
    """Return which pings are lost, and what that means."""
    summary, why = _said(cause, pings)
    return summary, "; ".join(filter(None, (why, _MAYBE_A_PART if cause.part else "")))


# Kind of cause → which pings are lost, and what that means.
_PLAIN: Mapping[Kind, tuple[str, str]] = {
    "fabric": ("{count} between devices are lost, on all rails", "it is what all devices have in common"),
    "rail": ("rail {device}: {count} along it are lost", "all hosts, one rail"),
    "host": ("{names}: {count} from and to its devices are lost", "several devices and peers, one host"),
    "gateway": ("gateway {names}: {count} to it and through it are lost", "its devices reach only each other"),
    "leaves": ("{count} between {leaves} are lost", "no single host or device: what lies between"),
    "hosts": ("{count} between {names} are lost", "no single device: what lies between"),
}


def _said(cause: Cause, pings: str) -> tuple[str, str]:
    match cause.kind:
        case "silent":
            return _silent_gateway(cause, pings)
        case "device":
            return _device(cause, pings)
        case "link":
            return "", _link(cause, pings)
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
    how = f"does not answer {pings}" if cause.unanswered else f"answers not all {pings}"
    return f"gateway {cause.objects} {how} of {silent_to}", "they reach others; a gateway may refuse ICMP, or limit it"


def _device(cause: Cause, pings: str) -> tuple[str, str]:
    device = PingEnd(cause.names[0], cause.device or 0)
    peers = {end(ping) if own(ping) == device else own(ping) for ping in cause.lost}
    lost = f"loses all {pings}" if cause.unanswered else f"loses {pings}"
    why = "several peers, one device: its own link"
    return f"{device.host}: device {device.device} {lost} with each of its {len(peers)} peers", why


def _link(cause: Cause, pings: str) -> str:
    is_both_ways = len(cause.lost) == cause.total > 1
    return f"all {cause.total} {pings} between {cause.objects} are lost, both ways" if is_both_ways else ""


def _partition(cause: Cause, pings: str) -> tuple[str, str]:
    where = f"rail {cause.device}: " if cause.device is not None else ""
    part, other_members = folded(cause.members), folded(cause.others)
    summary = f"{where}{part} reach each other, and none of {other_members}: {_count(cause, pings)} are lost"
    why = f"just what is behind {cause.objects}" if cause.names else "no single host or device: what lies between"
    return summary, f"a partition: {why}"
