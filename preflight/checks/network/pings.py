"""Checks of pings between devices. `attribution.lost_pings` attributes the lost ones."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address

from preflight.attribution.lost_pings import causes
from preflight.attribution.ping_reasons import reason
from preflight.attribution.ping_types import Attachment, Cause, PingEnd, end, is_lost, own
from preflight.attribution.ping_words import (
    LARGE,
    LARGE_DIRECT,
    REACH,
    REACH_DIRECT,
    Words,
    both_ways,
    describe,
    fix,
    query,
)
from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.facts.types import Hccn, HccnDevice
from preflight.model.cluster import Fabric
from preflight.model.finding import Finding
from preflight.model.measure import Culprit
from preflight.model.outcome import Outcome
from preflight.model.ping import Ping

_SHOWN = 12  # lines of evidence
# Kind of a cause → kind of its culprit.
_CULPRITS = {
    "fabric": "system",
    "host": "host",
    "device": "device",
    "rail": "rail",
    "partition": "partition",
    "gateway": "partition",
    "hosts": "link",
    "link": "link",
}


@cluster_check("PNG101", "Device reachability", products=NPU, several=False, optional=("hccn",))
def reach(
    scribe: All, pings: tuple[Ping, ...], hccn: Mapping[str, Hccn | None], known: tuple[Finding, ...]
) -> Iterator[Finding]:
    """Why: Two devices may be unable to reach each other although the address, mask and link of each device are right.
    Reachability depends on the cables, switch ports and VLANs between the devices, and only a packet can test it.

    Result: FAIL if pings are lost. Lost pings with a common cause are one finding. The cause can be a device that loses
    pings to its peers, a rail, a host or a gateway. It can also be the path between two leaf switches, or a part of the
    fabric that reaches only itself. If another check has found the reason (a duplicate address, a wrong mask), that
    finding is the cause. NPU107 reports devices with a link that is down. WARN if a gateway does not answer but its
    devices reach other devices, because many switches refuse or limit ICMP. By default, devices ping only their
    neighbours. If it stays unclear whether a part of the fabric is cut off, ping all hosts of a rail with --mesh.

    Check manually: Replace ADDRESS with another device's address. The tool always sends three packets.
      hccn_tool -i 0 -ping -g address ADDRESS
    Or ping all hosts of a rail with preflight.
      preflight check --only PNG101 --mesh

    Fix: If one device loses all pings, check its cable and switch port. If a whole rail loses them, check the rail's
    switch. If a leaf switch loses them, check its uplinks.
    """
    attempts = [ping for ping in pings if ping.purpose == "reach"]
    yield from _untried(scribe, attempts, "no device has both an address and a peer to ping")
    places = _places(hccn)
    yield from _devices_down(scribe, attempts, {device for device, place in places.items() if place.down})
    words = REACH_DIRECT if scribe.cluster.fabric is Fabric.DIRECT else REACH
    for cause in causes(attempts, places):
        findings = _LostPings(scribe, words, Outcome.WARN if cause.kind == "silent" else Outcome.FAIL)
        yield from findings.of_cause(cause, known)


@cluster_check("PNG102", "Device path MTU", products=NPU, several=False, optional=("hccn",))
def path_mtu(
    scribe: All, pings: tuple[Ping, ...], hccn: Mapping[str, Hccn | None], known: tuple[Finding, ...]
) -> Iterator[Finding]:
    """Why: If a switch port has a smaller MTU than the devices, small pings pass, but the port drops the large packets
    of a job. The job then hangs at its first large message.

    Result: FAIL if large pings are lost on a path where small pings pass. WARN if only some of them are lost. Also WARN
    if a gateway does not answer large pings, because it may still forward large packets.

    Check manually: Replace ADDRESS with another device's address. The packet size is the MTU minus 28 bytes: 4068 for
    an MTU of 4096.
      hccn_tool -i 0 -mtu -g
      hccn_tool -i 0 -ping -g address ADDRESS pkt 4068

    Fix: Raise the MTU of the switch ports. Or lower the MTU of all devices (device_mtu under [cluster] in the
    inventory).
    """
    large = _large_pings(pings)
    reason_for_none = "no large ping was sent: --ping-size is set, no MTU is known, or small pings were lost"
    yield from _untried(scribe, large, reason_for_none)
    words = LARGE_DIRECT if scribe.cluster.fabric is Fabric.DIRECT else LARGE
    for cause in causes(large, _places(hccn)):
        silent_devices = any(not ping.received and not end(ping).is_gateway for ping in cause.lost)
        findings = _LostPings(scribe, words, Outcome.FAIL if silent_devices else Outcome.WARN)
        yield from findings.of_cause(cause, known)


def _large_pings(pings: Sequence[Ping]) -> list[Ping]:
    """Return the large pings to addresses that answer all small ones."""
    answering = {
        (own(ping), ping.address) for ping in pings if ping.purpose == "reach" and ping.sent and not is_lost(ping)
    }
    return [ping for ping in pings if ping.purpose == "mtu" and (own(ping), ping.address) in answering]


@dataclass(frozen=True)
class _LostPings:
    """The writer of a check's findings about lost pings, all of one outcome."""

    scribe: All
    words: Words
    outcome: Outcome

    def of_cause(self, cause: Cause, known: Sequence[Finding]) -> Iterator[Finding]:
        if cause.kind == "link":
            for ping in cause.lost:
                yield _with_explanation(self.of_link(ping, cause), [ping], known)
        else:
            yield _with_explanation(self._of_common_cause(cause), cause.lost, known)

    def _of_common_cause(self, cause: Cause) -> Finding:
        """Return the one finding about the common cause of many lost pings."""
        host, device = cause.names[0] if cause.kind in ("host", "device") else None, cause.device
        if cause.kind == "silent" and len(alone := {own(ping) for ping in cause.lost}) == 1:
            ((host, device),) = alone
        summary, explanation = describe(cause, self.words.pings)
        return self.scribe.finding(
            self.outcome,
            summary,
            host=host,
            device=device if host else None,
            rail=cause.device,
            cause=explanation,
            expected=f"{cause.packets:,} answers{_packets(cause.lost)}",
            found=f"{cause.answered:,} answers",
            evidence=_evidence(cause.lost),
            remedy=fix(cause, self.words),
            commands=self._commands(cause),
            retest=self._retest(cause.lost[0]),
            culprit=_culprit(cause, self.words),
        )

    def of_link(self, ping: Ping, cause: Cause | None = None) -> Finding:
        """Return the finding about one ping; without `cause` only a part of its packets is lost."""
        symptom = _symptom(ping) if ping.received else "does not answer pings"
        if ping.purpose == "mtu":
            symptom = f"answers all small pings, but {ping.received} of {ping.sent} packets of {ping.size} bytes"
        lost = both_ways(cause, self.words.pings) if cause and ping == cause.lost[0] else ""
        return self.scribe.finding(
            self.outcome,
            f"{ping.host}: device {ping.device}: {ping.peer} ({ping.address}) {symptom}",
            host=ping.host,
            device=ping.device,
            rail=_rail(ping),
            peer=ping.peer,
            expected=f"{ping.sent} of {ping.sent} packets answered",
            found=f"{ping.received} of {ping.sent} packets answered",
            cause=describe(cause, self.words.pings)[1] if cause else "",
            remedy=fix(cause, self.words) if cause else self.words.fixes["link"],
            commands=self._commands(cause) if cause else (),
            retest=self._retest(ping),
            evidence=(lost,) if lost else (),
            culprit=_culprit(cause, self.words) if cause else None,
        )

    def _commands(self, cause: Cause) -> tuple[str, ...]:
        if cause.part:
            return (self.words.mesh.format(size=cause.lost[0].size),)
        device, arguments = query(cause, self.words)
        return (self.scribe.on(device.host, f"hccn_tool -i {device.device} {arguments}"),) if arguments else ()

    def _retest(self, ping: Ping) -> str:
        size = f" pkt {ping.size}" if ping.size else ""
        arguments = f"-ping -g address {shlex.quote(ping.address)}{size}"
        return self.scribe.on(ping.host, f"hccn_tool -i {ping.device} {arguments}")


def _with_explanation(finding: Finding, lost: Sequence[Ping], known: Sequence[Finding]) -> Finding:
    """Return the finding with cause and remedy of the check that explains it, if there is one."""
    explanation = reason(lost, known, large=lost[0].purpose == "mtu")
    if not explanation:
        return finding
    return replace(finding, cause=explanation.words, remedy=explanation.remedy, commands=explanation.commands)


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


def _devices_down(scribe: All, pings: Sequence[Ping], down: Collection[tuple[str, int]]) -> Iterator[Finding]:
    """Yield the hosts of devices that lost pings because their link is down."""
    devices: dict[str, set[int]] = defaultdict(set)
    for ping in pings:
        if is_lost(ping) and own(ping) in down:
            devices[ping.host].add(ping.device)
    for host, indices in devices.items():
        noun = "device" if len(indices) == 1 else "devices"
        subject = f"{host}: {noun} {', '.join(map(str, sorted(indices)))}"
        yield scribe.skip(f"{subject}: link is DOWN (NPU107), so lost pings are not counted", host=host)


def _untried(scribe: All, pings: Sequence[Ping], reason_for_none: str) -> Iterator[Finding]:
    """Yield the hosts without any ping, then the pings without a result, by host and error."""
    of_host = Counter(ping.host for ping in pings)
    for host in scribe.hosts:
        if host.name not in of_host:
            yield scribe.skip(reason_for_none, host=host.name)
    failed: dict[tuple[str, str], list[Ping]] = defaultdict(list)
    for ping in pings:
        if ping.error or not ping.sent:
            failed[ping.host, ping.error or "no ping was sent"].append(ping)
    for (name, error), pings_of_host in failed.items():
        yield _failed_pings(scribe, error, pings_of_host, of_host[name])


def _failed_pings(scribe: All, error: str, pings: Sequence[Ping], total: int) -> Finding:
    """Return the one finding about a host's pings with the same error, such as a host that died between the rounds."""
    host, devices = pings[0].host, {ping.device for ping in pings}
    device = pings[0].device if len(devices) == 1 else None
    subject = f"device {device}" if device is not None else f"{len(devices)} devices"
    if len(pings) == 1:
        peer, fault = pings[0].peer, f"could not ping {pings[0].peer} at {pings[0].address}"
    else:
        peer, fault = None, f"no result for {len(pings)} of the host's {total} pings"
    return scribe.unknown(f"{host}: {subject}: {fault} ({error})", host=host, device=device, peer=peer)


def _culprit(cause: Cause, words: Words) -> Culprit | None:
    """Return the culprit that a program is to leave out.

    None for two leaves, for a gateway and a device, and for a gateway that is silent."""
    kind = _CULPRITS.get(cause.kind)
    if kind is None or (cause.kind == "link" and len(_devices(cause)) != 2):
        return None
    return Culprit(kind, tuple(sorted(_members(cause))), (), words.trouble)


def _members(cause: Cause) -> Collection[str]:
    match cause.kind:
        case "fabric":
            return ()
        case "device":
            return [f"{cause.names[0]}/{cause.device}"]
        case "rail":
            return [str(place) for place in _devices(cause) if place.device == cause.device]
        case "partition":
            return cause.members
        case "gateway":
            return {str(own(ping)) for ping in cause.lost if end(ping).is_gateway}
    return cause.names


def _devices(cause: Cause) -> set[PingEnd]:
    """Return the devices at both ends of the lost pings."""
    return {place for ping in cause.lost for place in (own(ping), end(ping)) if not place.is_gateway}


def _evidence(lost: Sequence[Ping]) -> tuple[str, ...]:
    lines = [f"{ping.peer} ({ping.address}) {_symptom(ping)} from {own(ping)}" for ping in lost[:_SHOWN]]
    hidden = len(lost) - len(lines)
    return (*lines, f"and {hidden:,} more") if hidden else tuple(lines)


def _packets(pings: Sequence[Ping]) -> str:
    """Return ` (3 packets per ping)`; empty where each ping sent one packet, or where the numbers differ."""
    numbers = {ping.sent for ping in pings}
    return f" ({numbers.pop()} packets per ping)" if len(numbers) == 1 and numbers != {1} else ""


def _symptom(ping: Ping) -> str:
    return "does not answer pings" if not ping.received else f"answers {ping.received} of {ping.sent} pings"


def _rail(ping: Ping) -> int | None:
    """Return the rail of a ping along it; None for one to a gateway or across rails."""
    return ping.device if end(ping).device == ping.device else None
