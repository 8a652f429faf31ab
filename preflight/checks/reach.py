"""Devices reach their peers: the second round, of pings. Who or what is at fault is counted in `losses`."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address

from preflight.checks.losses import Cause, End, Place, causes, end, is_lost, own
from preflight.checks.registry import NPU, All, cluster_check
from preflight.facts.types import Hccn, HccnDevice, Ping
from preflight.model.cluster import Fabric
from preflight.model.finding import Finding

_SHOWN = 12  # lines of evidence


@dataclass(frozen=True)
class _Words:
    """How the findings of a check speak of lost pings. `mend`: kind of cause → what to look at."""

    pings: str  # "pings"
    mend: Mapping[str, str]


def _direct(words: _Words, **mend: str) -> _Words:
    """The same without a switch: two servers joined by cables."""
    return replace(words, mend={**words.mend, **mend})


_BOTH_ENDS = "the MTU of the devices at both ends: hccn_tool -i 0 -mtu -g"
_REACH = _Words(
    "pings",
    {
        "fabric": "what all devices have in common: the switch, its VLANs, or the plan of their addresses",
        "rail": "the switch of rail {device}: is it on, and are the ports of this rail in one VLAN?",
        "host": "cables and switch ports of {0}; on it: hccn_tool -i 0 -link -g",
        "gateway": "the switch that should hold {0}, or the gateway in the inventory; then the way behind it",
        "silent": "does the switch refuse ICMP to {0}, or limit it? else: the gateway in the inventory",
        "device": "cable, optical module and switch port of device {device}",
        "leaves": "the uplinks and the spines between {0} and {1}, and the VLAN on them",
        "hosts": "routes, VLANs and uplinks between {0} and {1}",
        "link": "cable, switch port, VLAN",
    },
)
_REACH_DIRECT = _direct(
    _REACH,
    fabric="what all devices have in common: the plan of their addresses, or which cable is in which device",
    rail="the cables of rail {device}",
    host="the cables of {0}; on it: hccn_tool -i 0 -link -g",
    device="cable and optical modules of device {device}",
    hosts="the cables between {0} and {1}",
    link="the cable, and the optical modules at both ends",
)
_LARGE = _Words(
    "large pings",
    {
        "fabric": "the MTU of the switches' ports: it has to hold the devices' MTU and the Ethernet header",
        "rail": "the MTU of the switch of rail {device}",
        "host": "the MTU of the switch ports of {0}",
        "gateway": "the MTU of the interface with {0}, and of what lies behind it",
        "silent": "the MTU of the interface with {0}; whether packets through it pass, only a host behind it tells",
        "device": "the MTU of the switch port of device {device}",
        "leaves": "the MTU of the uplinks and the spines between {0} and {1}",
        "hosts": "the MTU of all switch ports between {0} and {1}",
        "link": "the MTU of the switch ports between them",
    },
)
_LARGE_DIRECT = _direct(_LARGE, **dict.fromkeys(("fabric", "rail", "host", "device", "hosts", "link"), _BOTH_ENDS))


@cluster_check("PNG101", "The devices reach their peers", products=NPU, several=False, optional=("hccn",))
def reach(all_: All, pings: tuple[Ping, ...], hccn: Mapping[str, Hccn | None]) -> Iterator[Finding]:
    """Why: address, mask and link may all look right on each device by itself; whether two of them reach each other
    depends on cables, switch ports and VLANs between them, and only a packet tells. What lost pings have in common is
    named once: a device that loses those to all its peers, a rail, a host, a gateway, two leaves. Its peers are not. A
    gateway that does not answer while its devices reach others, is only a warning: many switches refuse ICMP, or limit
    it. Of a device whose link is DOWN, NPU107 speaks.

    By hand: hccn_tool -i 0 -ping -g address A   (always three packets; "pkt" is their size)

    Mend: one device to all peers: its cable and switch port; a whole rail: its switch; two leaves: their uplinks
    """
    mine = [ping for ping in pings if ping.purpose == "reach"]
    asked = {ping.host for ping in mine}
    for host in all_.hosts:
        if host.name not in asked:
            yield all_.skip("no device here has both an address and somebody to ping", host=host.name)
    yield from _not_made(all_, mine)
    places = _places(hccn)
    yield from _down(all_, mine, {device for device, place in places.items() if place.down})
    words = _REACH_DIRECT if all_.cluster.fabric is Fabric.DIRECT else _REACH
    for cause in causes(mine, places):
        if cause.kind == "link":
            yield from (_link(all_, ping, cause, words) for ping in cause.lost)
        else:
            yield _shared(cause, words, all_.warn if cause.kind == "silent" else all_.bad)


@cluster_check("PNG102", "Packets as large as the devices' MTU reach their peers", products=NPU, several=False,
               optional=("hccn",))  # fmt: skip
def path_mtu(all_: All, pings: tuple[Ping, ...], hccn: Mapping[str, Hccn | None]) -> Iterator[Finding]:
    """Why: a switch port with a smaller MTU than the devices passes every small ping and drops the packets of a job,
    which then hangs at its first large message. Only what small pings reach is judged. A gateway that takes no large
    ping may still pass large packets on, so that is a warning.

    By hand: hccn_tool -i 0 -mtu -g, then hccn_tool -i 0 -ping -g address A pkt N, N = MTU - 28

    Mend: raise the MTU of the switch ports, or lower that of all devices (cluster.device_mtu)
    """
    small = {(own(ping), ping.address) for ping in pings if ping.purpose == "reach" and ping.sent and not is_lost(ping)}
    large = [ping for ping in pings if ping.purpose == "mtu" and (own(ping), ping.address) in small]
    asked = {ping.host for ping in large}
    for host in all_.hosts:
        if host.name not in asked:
            yield all_.skip("no large ping was sent: a size was asked for, no MTU is known, or small ones are lost",
                            host=host.name)  # fmt: skip
    yield from _not_made(all_, large)
    words = _LARGE_DIRECT if all_.cluster.fabric is Fabric.DIRECT else _LARGE
    for cause in causes(large, _places(hccn), _is_silent):
        gateway = all(end(ping).is_gateway for ping in cause.lost)
        if cause.kind == "link":
            yield from (_large_link(ping, words, all_.warn if gateway else all_.bad) for ping in cause.lost)
        else:
            yield _shared(cause, words, all_.warn if gateway else all_.bad)
    for ping in large:
        if is_lost(ping) and ping.received:
            yield _large_link(ping, words, all_.warn)


def _is_silent(ping: Ping) -> bool:
    return is_lost(ping) and not ping.received


def _places(hccn: Mapping[str, Hccn | None]) -> dict[tuple[str, int], Place]:
    return {
        (host, device.index): Place(device.leaf.value or "", _subnet(device), device.link.value == "DOWN")
        for host, found in hccn.items() if found
        for device in found.devices
    }  # fmt: skip


def _subnet(device: HccnDevice) -> tuple[int, int] | None:
    try:
        mask = int(IPv4Address(device.netmask.value or ""))
        return int(IPv4Address(device.address.value or "")) & mask, mask
    except AddressValueError:
        return None


def _down(all_: All, pings: Sequence[Ping], down: Collection[tuple[str, int]]) -> Iterator[Finding]:
    """The hosts of devices that lost pings for want of a link."""
    devices: dict[str, set[int]] = defaultdict(set)
    for ping in pings:
        if is_lost(ping) and own(ping) in down:
            devices[ping.host].add(ping.device)
    for host, those in devices.items():
        named = f"device {min(those)}" if len(those) == 1 else f"devices {', '.join(map(str, sorted(those)))}"
        yield all_.skip(f"{host}: {named}: link is DOWN, which NPU107 says; lost pings are not counted", host=host)


def _not_made(all_: All, pings: Sequence[Ping]) -> Iterator[Finding]:
    """Pings that say nothing, by host and reason: a host that died between the rounds is one finding."""
    reasons: dict[tuple[str, str], list[Ping]] = defaultdict(list)
    for ping in pings:
        if ping.error or not ping.sent:
            reasons[ping.host, ping.error or "no ping was sent"].append(ping)
    of_host = Counter(ping.host for ping in pings)
    for (host, why), those in reasons.items():
        devices = sorted({ping.device for ping in those})
        device = devices[0] if len(devices) == 1 else None
        one = those[0] if len(those) == 1 else None
        whose = f"{host}: device {device}" if device is not None else f"{host}: {len(devices)} devices"
        what = f"{one.peer} ({one.address})" if one else f"{len(those)} of the host's {of_host[host]} pings"
        yield all_.unknown(f"{whose}: {what} could not be tried: {why}", host=host, device=device,
                           peer=one.peer if one else None)  # fmt: skip


def _shared(cause: Cause, words: _Words, tell: Callable[..., Finding]) -> Finding:
    """The one finding about what many lost pings have in common."""
    host, device = cause.names[0] if cause.kind in ("host", "device") else None, cause.device
    if cause.kind == "silent" and len(alone := {own(ping) for ping in cause.lost}) == 1:
        ((host, device),) = alone
    summary, why = _said(cause, words.pings)
    return tell(
        summary, host=host, device=device if host else None, rail=cause.device, cause=why,
        expected=f"{sum(ping.sent for ping in cause.lost)} answers",
        found=f"{sum(ping.received for ping in cause.lost)}", evidence=_evidence(cause.lost),
        remedy=words.mend[cause.kind].format(*cause.names, device=cause.device),
    )  # fmt: skip


def _said(cause: Cause, pings: str) -> tuple[str, str]:
    """What is lost, and what that means."""
    count, between = f"{len(cause.lost)} of {cause.total} {pings}", " and ".join(cause.names)
    match cause.kind:
        case "fabric":
            return f"{count} between devices are lost, on all rails", "it is what all devices have in common"
        case "rail":
            return f"rail {cause.device}: {count} along it are lost", "all hosts, one rail"
        case "host":
            return f"{between}: {count} from and to its devices are lost", "several devices and peers, one host"
        case "gateway":
            return f"gateway {between}: {count} to it and through it are lost", "its devices reach only each other"
        case "silent":
            devices = {own(ping) for ping in cause.lost}
            whom = str(*devices) if len(devices) == 1 else f"{len(devices)} devices"
            how = f"answers not all {pings}" if any(it.received for it in cause.lost) else f"does not answer {pings}"
            return f"gateway {between} {how} of {whom}", "they reach others; a gateway may refuse ICMP, or limit it"
        case "device":
            device = End(cause.names[0], cause.device or 0)
            peers = {end(ping) if own(ping) == device else own(ping) for ping in cause.lost}
            silent = not any(ping.received for ping in cause.lost)
            lost = f"loses all {pings}" if silent else f"loses {pings}"
            why = "several peers, one device: its own link"
            return f"{device.host}: device {device.device} {lost} with each of its {len(peers)} peers", why
        case "leaves":
            between = " and ".join(f"leaf {name}" for name in cause.names)
            return f"{count} between {between} are lost", "no single host or device: what lies between"
        case _:
            return f"{count} between {between} are lost", "no single device: what lies between"


def _link(all_: All, ping: Ping, cause: Cause, words: _Words) -> Finding:
    all_lost = len(cause.lost) == cause.total > 1
    return all_.bad(
        f"{ping.host}: device {ping.device}: {ping.peer} ({ping.address}) {_silent(ping)}", host=ping.host,
        device=ping.device, rail=_rail(ping), peer=ping.peer, expected=f"{ping.sent} of {ping.sent}",
        found=f"{ping.received} of {ping.sent}",
        cause=f"all {cause.total} pings between {' and '.join(cause.names)} are lost, both ways" if all_lost else "",
        remedy=f"on {ping.host}: hccn_tool -i {ping.device} -ping -g address {ping.address}; then {words.mend['link']}",
    )  # fmt: skip


def _large_link(ping: Ping, words: _Words, tell: Callable[..., Finding]) -> Finding:
    return tell(
        f"{ping.host}: device {ping.device}: {ping.peer} ({ping.address}) answers small pings, and {ping.received} of "
        f"{ping.sent} with {ping.size} bytes", host=ping.host, device=ping.device, rail=_rail(ping), peer=ping.peer,
        expected=f"{ping.sent} of {ping.sent}", found=f"{ping.received} of {ping.sent}",
        remedy=f"on {ping.host}: hccn_tool -i {ping.device} -ping -g address {ping.address} pkt {ping.size}; then "
        f"{words.mend['link']}",
    )  # fmt: skip


def _evidence(lost: Sequence[Ping]) -> tuple[str, ...]:
    lines = [f"{own(ping)} to {ping.peer} ({ping.address}): {_silent(ping)}" for ping in lost[:_SHOWN]]
    more = len(lost) - len(lines)
    return (*lines, f"and {more:,} more") if more else tuple(lines)


def _silent(ping: Ping) -> str:
    return "does not answer" if not ping.received else f"answers {ping.received} of {ping.sent} pings"


def _rail(ping: Ping) -> int | None:
    """The rail of a ping along it; None for one to a gateway or across rails."""
    return ping.device if end(ping).device == ping.device else None
