"""Devices reach their peers: the second, scheduled round of pings."""

from collections import defaultdict
from collections.abc import Iterator

from preflight.checks.registry import NPU, All, cluster_check
from preflight.facts.types import Ping
from preflight.model.finding import Finding


@cluster_check("PNG101", "The devices reach their peers", products=NPU, several=False)
def reach(all_: All, pings: tuple[Ping, ...]) -> Iterator[Finding]:
    """Why: address, mask and link may all look right on each device by itself; whether two of them reach each other
    depends on cables, switch ports and VLANs between them, and only a packet tells. A device that
    loses pings to all its peers is named once; its peers, who lose theirs to it, are not.

    By hand: hccn_tool -i 0 -ping -g address A   (always three packets; "pkt" is their size)

    Mend: one device to all peers: its cable and switch port; a whole rail between two hosts: the VLAN or the uplink
    """
    by_device: dict[tuple[str, int], list[Ping]] = defaultdict(list)
    by_path: dict[tuple[str, str, int], list[Ping]] = defaultdict(list)
    for ping in pings:
        by_device[ping.host, ping.device].append(ping)
        by_path[_path(ping)].append(ping)
    asked = {ping.host for ping in pings}
    for host in all_.hosts:
        if host.name not in asked:
            yield all_.skip("no device here has both an address and somebody to ping", host=host.name)
    alone = {subject for subject, own in by_device.items() if len(own) > 1 and all(map(_lost, own))}
    for name, device in sorted(alone):
        yield _alone(all_, name, device, by_device[name, device], pings)
    for ping in pings:
        name = f"{ping.host}: device {ping.device}"
        if ping.error:
            yield all_.unknown(f"{name}: {ping.peer} could not be pinged: {ping.error}", host=ping.host,
                               device=ping.device, peer=ping.peer)  # fmt: skip
        elif not ping.sent:
            yield all_.unknown(f"{name}: {ping.peer} ({ping.address}): no ping was sent", host=ping.host,
                               device=ping.device, peer=ping.peer)  # fmt: skip
        elif _lost(ping) and not alone & {(ping.host, ping.device), _end(ping)}:
            yield all_.bad(
                f"{name}: {ping.peer} ({ping.address}) {_silent(ping)}", host=ping.host, device=ping.device,
                rail=_rail(ping), peer=ping.peer, expected=f"{ping.sent} of {ping.sent}",
                found=f"{ping.received} of {ping.sent}", cause=_cause(ping, by_path[_path(ping)]),
                remedy=f"on {ping.host}: hccn_tool -i {ping.device} -ping -g address {ping.address}; then cable, "
                "switch port, VLAN",
            )  # fmt: skip


def _alone(all_: All, host: str, device: int, own: list[Ping], pings: tuple[Ping, ...]) -> Finding:
    """The finding about a device that loses pings to all its peers, instead of one about each and each of theirs."""
    others = [ping for ping in pings if _end(ping) == (host, device) and _lost(ping)]
    silent = not any(ping.received for ping in own)
    what = "reaches none of its" if silent else "loses pings to all its"
    return all_.bad(
        f"{host}: device {device} {what} {len(own)} peers", host=host, device=device, rail=device,
        expected=f"{sum(ping.sent for ping in own)} answers", found=f"{sum(ping.received for ping in own)}",
        cause="several peers, one device: its own link",
        evidence=tuple(
            f"{ping.host}/{ping.device} to {ping.peer} ({ping.address}): {_silent(ping)}" for ping in [*own, *others]
        ),
        remedy=f"cable, optical module and switch port of device {device}",
    )  # fmt: skip


def _silent(ping: Ping) -> str:
    return "does not answer" if not ping.received else f"answers {ping.received} of {ping.sent} pings"


def _end(ping: Ping) -> tuple[str, int] | None:
    """The device that was pinged; None for a gateway."""
    host, slash, device = ping.peer.rpartition("/")
    return (host, int(device)) if slash and device.isdigit() else None


def _rail(ping: Ping) -> int | None:
    """The rail of a ping along it; None for one to a gateway or across rails."""
    _, slash, device = ping.peer.rpartition("/")
    return ping.device if slash and device == str(ping.device) else None


def _path(ping: Ping) -> tuple[str, str, int]:
    """Both directions between two hosts on one rail."""
    one, other = sorted((ping.host, ping.peer.rpartition("/")[0] or ping.peer))
    return one, other, ping.device


def _lost(ping: Ping) -> bool:
    return not ping.error and ping.received < ping.sent  # some or all of it


def _cause(ping: Ping, of_path: list[Ping]) -> str:
    if len(of_path) > 1 and all(map(_lost, of_path)):
        one, other, rail = _path(ping)
        return f"all {len(of_path)} pings on rail {rail} between {one} and {other} are lost, in both directions"
    return ""
