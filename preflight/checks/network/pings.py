"""Checks of pings between devices. `attribution.lost_pings` attributes the lost ones."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address

from preflight.attribution.lost_pings import causes
from preflight.attribution.ping_reasons import reason
from preflight.attribution.ping_types import Attachment, Cause, end, is_lost, own
from preflight.attribution.ping_words import LARGE, LARGE_DIRECT, REACH, REACH_DIRECT, Words, mend, said
from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.facts.types import Hccn, HccnDevice, Ping
from preflight.model.cluster import Fabric
from preflight.model.finding import Finding
from preflight.model.measure import Culprit

_SHOWN = 12  # lines of evidence


@cluster_check("PNG101", "The devices reach their peers", products=NPU, several=False, optional=("hccn",))
def reach(
    all_: All, pings: tuple[Ping, ...], hccn: Mapping[str, Hccn | None], known: tuple[Finding, ...]
) -> Iterator[Finding]:
    """Why: address, mask and link may all look right on each device by itself; whether two of them reach each other
    depends on cables, switch ports and VLANs between them, and only a packet tells. What lost pings have in common is
    named once: a device that loses those to all its peers, a rail, a host, a gateway, a part of the fabric that reaches
    itself and not the rest (with the leaf, where LLDP tells it), two leaves. Its peers are not. A gateway that does not
    answer while its devices reach others, is only a warning: many switches refuse ICMP, or limit it. Of a device whose
    link is DOWN, NPU107 speaks. Where another check has found why (an address that two devices have, a wrong mask),
    its finding is the cause. Neighbours ask few others: where that leaves open whether a part is cut off, --mesh
    tells.

    Check manually: hccn_tool -i 0 -ping -g address A   (always three packets; "pkt" is their size)

    Fix: one device to all peers: its cable and switch port; a whole rail: its switch; a leaf: its uplinks
    """
    attempts = [ping for ping in pings if ping.purpose == "reach"]
    pinging_hosts = {ping.host for ping in attempts}
    for host in all_.hosts:
        if host.name not in pinging_hosts:
            yield all_.skip("no device here has both an address and somebody to ping", host=host.name)
    yield from _not_made(all_, attempts)
    places = _places(hccn)
    yield from _down(all_, attempts, {device for device, place in places.items() if place.down})
    words = REACH_DIRECT if all_.cluster.fabric is Fabric.DIRECT else REACH
    for cause in causes(attempts, places):
        if cause.kind == "link":
            yield from (_explained(_link(all_, ping, cause, words), [ping], known) for ping in cause.lost)
        else:
            shared = _shared(cause, words, all_.warn if cause.kind == "silent" else all_.bad)
            yield _explained(shared, cause.lost, known)


@cluster_check(
    "PNG102", "Packets as large as the devices' MTU reach their peers", products=NPU, several=False, optional=("hccn",)
)
def path_mtu(
    all_: All, pings: tuple[Ping, ...], hccn: Mapping[str, Hccn | None], known: tuple[Finding, ...]
) -> Iterator[Finding]:
    """Why: a switch port with a smaller MTU than the devices passes every small ping and drops the packets of a job,
    which then hangs at its first large message. Only what small pings reach is judged. A gateway that takes no large
    ping may still pass large packets on, so that is a warning.

    Check manually: hccn_tool -i 0 -mtu -g, then hccn_tool -i 0 -ping -g address A pkt N, N = MTU - 28

    Fix: raise the MTU of the switch ports, or lower that of all devices (cluster.device_mtu)
    """
    small = {(own(ping), ping.address) for ping in pings if ping.purpose == "reach" and ping.sent and not is_lost(ping)}
    large = [ping for ping in pings if ping.purpose == "mtu" and (own(ping), ping.address) in small]
    pinging_hosts = {ping.host for ping in large}
    for host in all_.hosts:
        if host.name not in pinging_hosts:
            yield all_.skip(
                "no large ping was sent: a size was asked for, no MTU is known, or small ones are lost", host=host.name
            )
    yield from _not_made(all_, large)
    words = LARGE_DIRECT if all_.cluster.fabric is Fabric.DIRECT else LARGE
    for cause in causes(large, _places(hccn), _is_silent):
        report = all_.warn if all(end(ping).is_gateway for ping in cause.lost) else all_.bad
        if cause.kind == "link":
            findings = [(_large_link(ping, words, report, cause), [ping]) for ping in cause.lost]
        else:
            findings = [(_shared(cause, words, report), [*cause.lost])]
        yield from (_explained(finding, lost, known, large=True) for finding, lost in findings)
    for ping in large:
        if is_lost(ping) and ping.received:
            yield _explained(_large_link(ping, words, all_.warn), [ping], known, large=True)


def _explained(finding: Finding, lost: Sequence[Ping], known: Sequence[Finding], *, large: bool = False) -> Finding:
    """Return the finding with cause and remedy of the check that explains it, if there is one."""
    why = reason(lost, known, large=large)
    return replace(finding, cause=why.words, remedy=why.remedy) if why else finding


def _is_silent(ping: Ping) -> bool:
    return is_lost(ping) and not ping.received


def _places(hccn: Mapping[str, Hccn | None]) -> dict[tuple[str, int], Attachment]:
    return {
        (host, device.index): Attachment(device.leaf.value or "", _subnet(device), device.link.value == "DOWN")
        for host, hccn_of_host in hccn.items()
        if hccn_of_host
        for device in hccn_of_host.devices
    }


def _subnet(device: HccnDevice) -> tuple[int, int] | None:
    try:
        mask = int(IPv4Address(device.netmask.value or ""))
        return int(IPv4Address(device.address.value or "")) & mask, mask
    except AddressValueError:
        return None


def _down(all_: All, pings: Sequence[Ping], down: Collection[tuple[str, int]]) -> Iterator[Finding]:
    """Yield the hosts of devices that lost pings because their link is down."""
    devices: dict[str, set[int]] = defaultdict(set)
    for ping in pings:
        if is_lost(ping) and own(ping) in down:
            devices[ping.host].add(ping.device)
    for host, indices in devices.items():
        named = f"device {min(indices)}" if len(indices) == 1 else f"devices {', '.join(map(str, sorted(indices)))}"
        yield all_.skip(f"{host}: {named}: link is DOWN, which NPU107 says; lost pings are not counted", host=host)


def _not_made(all_: All, pings: Sequence[Ping]) -> Iterator[Finding]:
    """Yield the pings without a result, by host and reason. A host that died between the rounds is one finding."""
    reasons: dict[tuple[str, str], list[Ping]] = defaultdict(list)
    for ping in pings:
        if ping.error or not ping.sent:
            reasons[ping.host, ping.error or "no ping was sent"].append(ping)
    of_host = Counter(ping.host for ping in pings)
    for (host, why), failed in reasons.items():
        devices = sorted({ping.device for ping in failed})
        device = devices[0] if len(devices) == 1 else None
        single = failed[0] if len(failed) == 1 else None
        subject = f"{host}: device {device}" if device is not None else f"{host}: {len(devices)} devices"
        objects = (
            f"{single.peer} ({single.address})" if single else f"{len(failed)} of the host's {of_host[host]} pings"
        )
        yield all_.unknown(
            f"{subject}: {objects} could not be tried: {why}",
            host=host,
            device=device,
            peer=single.peer if single else None,
        )


def _shared(cause: Cause, words: Words, tell: Callable[..., Finding]) -> Finding:
    """Return the one finding about the common cause of many lost pings."""
    host, device = cause.names[0] if cause.kind in ("host", "device") else None, cause.device
    if cause.kind == "silent" and len(alone := {own(ping) for ping in cause.lost}) == 1:
        ((host, device),) = alone
    summary, why = said(cause, words.pings)
    return tell(
        summary,
        host=host,
        device=device if host else None,
        rail=cause.device,
        cause=why,
        expected=f"{sum(ping.sent for ping in cause.lost)} answers",
        found=f"{sum(ping.received for ping in cause.lost)}",
        evidence=_evidence(cause.lost),
        remedy=mend(cause, words),
        culprit=_culprit(cause, words),
    )


def _culprit(cause: Cause, words: Words) -> Culprit | None:
    """Return what a program is to leave out.

    None for two leaves, for a gateway and a device, and for a gateway that is silent."""
    name = cause.names[0] if cause.names else ""
    devices = {place for ping in cause.lost for place in (own(ping), end(ping)) if not place.is_gateway}
    match cause.kind:
        case "fabric":
            kind, members = "system", []
        case "host":
            kind, members = "host", [name]
        case "device":
            kind, members = "device", [f"{name}/{cause.device}"]
        case "rail":
            kind, members = "rail", [str(place) for place in devices if place.device == cause.device]
        case "partition":
            kind, members = "partition", list(cause.members)
        case "gateway":
            asking = {own(ping) for ping in cause.lost if end(ping).is_gateway}
            kind, members = "partition", [str(place) for place in asking]
        case "hosts":
            kind, members = "link", list(cause.names)
        case "link" if len(devices) == 2:
            kind, members = "link", list(cause.names)
        case _:
            return None
    return Culprit(kind, tuple(sorted(members)), (), words.trouble)


def _link(all_: All, ping: Ping, cause: Cause, words: Words) -> Finding:
    return all_.bad(
        f"{ping.host}: device {ping.device}: {ping.peer} ({ping.address}) {_silent(ping)}",
        host=ping.host,
        device=ping.device,
        rail=_rail(ping),
        peer=ping.peer,
        expected=f"{ping.sent} of {ping.sent}",
        found=f"{ping.received} of {ping.sent}",
        cause=said(cause, words.pings)[1],
        remedy=f"on {ping.host}: hccn_tool -i {ping.device} -ping -g address {ping.address}; then {mend(cause, words)}",
        culprit=_culprit(cause, words),
    )


def _large_link(ping: Ping, words: Words, tell: Callable[..., Finding], cause: Cause | None = None) -> Finding:
    return tell(
        f"{ping.host}: device {ping.device}: {ping.peer} ({ping.address}) answers small pings, and {ping.received} of "
        f"{ping.sent} with {ping.size} bytes",
        host=ping.host,
        device=ping.device,
        rail=_rail(ping),
        peer=ping.peer,
        expected=f"{ping.sent} of {ping.sent}",
        found=f"{ping.received} of {ping.sent}",
        remedy=f"on {ping.host}: hccn_tool -i {ping.device} -ping -g address {ping.address} pkt {ping.size}; then "
        f"{mend(cause, words) if cause else words.mend['link']}",
        cause=said(cause, words.pings)[1] if cause else "",
        culprit=_culprit(cause, words) if cause else None,
    )


def _evidence(lost: Sequence[Ping]) -> tuple[str, ...]:
    lines = [f"{own(ping)} to {ping.peer} ({ping.address}): {_silent(ping)}" for ping in lost[:_SHOWN]]
    hidden = len(lost) - len(lines)
    return (*lines, f"and {hidden:,} more") if hidden else tuple(lines)


def _silent(ping: Ping) -> str:
    return "does not answer" if not ping.received else f"answers {ping.received} of {ping.sent} pings"


def _rail(ping: Ping) -> int | None:
    """Return the rail of a ping along it; None for one to a gateway or across rails."""
    return ping.device if end(ping).device == ping.device else None
