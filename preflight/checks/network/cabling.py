"""Cabling of the device NICs, by the names that their switches send over LLDP."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.checks.shared.npu import untold
from preflight.facts.sections.nic import Nic
from preflight.model.cluster import Fabric, Host
from preflight.model.finding import Finding

Leaves = Mapping[int, str]  # device → the system name of its switch
_AGREED = 0.75  # share of the hosts with a host's leaves that make the pattern


@dataclass(frozen=True)
class _Group:
    """The other hosts on the same leaves as one host, most of them alike. `home`: the leaf where a device belongs."""

    home: Leaves
    hosts: int  # a bit a host

    def rail_of(self, leaf: str) -> int | None:
        return next((device for device, home_leaf in sorted(self.home.items()) if home_leaf == leaf), None)


class _Fabric:
    """The leaves of all hosts.

    A set of hosts is an integer with one bit a host, because thousands of hosts are compared with thousands."""

    def __init__(self, leaves: Iterable[Leaves]) -> None:
        self.on: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))  # device → leaf → hosts
        self.reporting: dict[int, int] = defaultdict(int)  # device → hosts that report its leaf
        self.with_devices: dict[tuple[str, int], int] = defaultdict(int)  # (leaf, n) → hosts with n or more there
        for number, own in enumerate(leaves):
            for device, leaf in own.items():
                self.on[device][leaf] |= 1 << number
                self.reporting[device] |= 1 << number
            for leaf, devices in Counter(own.values()).items():
                for at_least in range(1, devices + 1):
                    self.with_devices[leaf, at_least] |= 1 << number
        self.shared = {
            device: {leaf: hosts for leaf, hosts in leaves.items() if hosts.bit_count() > 1}
            for device, leaves in self.on.items()
        }  # as `on`, without leaves of a single host, which cannot be the usual ones

    def group(self, number: int, own: Leaves) -> _Group:
        """Return the hosts that share at least half of the host's leaves, on whichever devices."""
        common = [
            self.with_devices[leaf, at_least]
            for leaf, devices in Counter(own.values()).items()
            for at_least in range(1, devices + 1)
        ]
        peers = _in_at_least((len(own) + 1) // 2, common) & ~(1 << number)
        home = {device: leaf for device in own if (leaf := self._home(device, peers))}
        return _Group(home, peers)

    def _home(self, device: int, peers: int) -> str:
        """Return the leaf on which nearly all of them have the device; empty if there is none."""
        enough = max(2, _AGREED * (self.reporting[device] & peers).bit_count())
        return next((leaf for leaf, hosts in self.shared[device].items() if (hosts & peers).bit_count() >= enough), "")


def _in_at_least(number: int, sets: Iterable[int]) -> int:
    """Return the hosts that are in at least so many of the sets."""
    in_ = [-1] + [0] * number  # hosts in at least 0 of the sets so far, in 1 …
    for hosts in sets:
        for count in range(number, 0, -1):
            in_[count] |= in_[count - 1] & hosts
    return in_[number]


@cluster_check("NIC105", "Device cabling", products=NPU)
def cabling(scribe: All, nic: Mapping[str, Nic]) -> Iterator[Finding]:
    """Why: Accelerator fabrics connect devices with the same number on all hosts to one leaf switch. If two cables are
    swapped, all links are still up. Traffic then takes a longer path. If every rail has a separate subnet, no traffic
    gets through.

    Result: FAIL for swapped cables, and for a device on the leaf switch of another device. WARN for a device on any
    other leaf switch. With only two hosts, swapped cables are WARN. Each host is compared with the hosts on the same
    leaf switches, and nearly all of them (three quarters, at least two) must agree. A rail with several leaf switches
    is not a fault.

    Check manually: For each device of two hosts, here device 0:
      hccn_tool -i 0 -lldp -g

    Fix: Connect the cables as on the other hosts.
    """
    if scribe.cluster.fabric is Fabric.DIRECT:
        yield scribe.skip("the device NICs are connected directly, without a switch")
        return
    leaves = {host.name: _leaves(nic[host.name]) for host in scribe.hosts}
    for host in scribe.hosts:
        yield from _without_leaves(scribe, host, nic[host.name], leaves[host.name])
    with_leaves = {name: own for name, own in leaves.items() if own}
    fabric = _Fabric(with_leaves.values())
    for number, (name, own) in enumerate(with_leaves.items()):
        yield from _miscabled(scribe, name, own, fabric.group(number, own), fabric)
    if len(with_leaves) == len(leaves) == 2:
        yield from _swapped_on_either(scribe, leaves)


def _without_leaves(scribe: All, host: Host, nic: Nic, leaves: Leaves) -> Iterator[Finding]:
    yield from untold(scribe, host, {device.index: device.neighbour for device in nic.devices}, unset=True)
    if not leaves and not any(device.neighbour.error for device in nic.devices):
        yield scribe.skip("no switch reports its name over LLDP", host=host.name)


def _leaves(nic: Nic) -> Leaves:
    return {
        device.index: neighbour.system
        for device in nic.devices
        if (neighbour := device.neighbour.value) and neighbour.system
    }


def _miscabled(scribe: All, name: str, own: Leaves, group: _Group, fabric: _Fabric) -> Iterator[Finding]:
    wrong = {device: leaf for device, leaf in own.items() if device in group.home and leaf != group.home[device]}
    reported = set[int]()
    for device, leaf in wrong.items():
        if device in reported:
            continue
        home = group.home[device]
        usual_device = group.rail_of(leaf)
        details: dict[str, Any] = {"host": name, "device": device, "rail": device, "expected": home, "found": leaf}
        partner = _swapped_with(device, wrong, group.home, reported)
        if partner is not None:
            reported.add(partner)
            yield scribe.bad(
                f"{name}: device {device}: cable is swapped with that of device {partner} ({leaf} instead of {home})",
                remedy=f"swap the cables of devices {device} and {partner} of {name}",
                **details,
            )
        elif usual_device is not None:
            yield scribe.bad(
                f"{name}: device {device}: is connected to {leaf}, to which other hosts connect device {usual_device}",
                remedy=f"connect device {device} of {name} to {home}",
                **details,
            )
        elif not group.hosts & fabric.on[device][leaf]:
            yield scribe.warn(
                f"{name}: device {device}: is connected to {leaf}. Nearly all other hosts connect it to {home}",
                remedy=f"connect device {device} of {name} to {home}, unless the difference is intended",
                **details,
            )


def _swapped_with(device: int, wrong: Leaves, home: Leaves, reported: set[int]) -> int | None:
    """Return the first device on the home leaf of `device` that belongs on its leaf."""
    swapped = (home[device], wrong[device])
    partners = (partner for partner in wrong if (wrong[partner], home[partner]) == swapped and partner not in reported)
    return next(partners, None)


def _swapped_on_either(scribe: All, leaves: Mapping[str, Leaves]) -> Iterator[Finding]:
    """Yield the device pairs that two hosts have on the same leaves in swapped order. One host has swapped cables, and
    nothing shows which."""
    (name, own), (peer, peer_leaves) = leaves.items()
    reported = set[int]()
    for device, leaf in own.items():
        for second in range(device + 1, max(own) + 1):
            if (
                second in own
                and leaf != own[second]
                and not reported & {device, second}
                and (peer_leaves.get(device), peer_leaves.get(second)) == (own[second], leaf)
            ):
                reported |= {device, second}
                yield scribe.warn(
                    f"{name}: device {device}: cable is swapped with that of device {second}, either here or on {peer}",
                    host=name,
                    device=device,
                    rail=device,
                    peer=f"{peer}/{device}",
                    found=f"{leaf} on {name}, {own[second]} on {peer}",
                    remedy=f"compare {name} and {peer} with the cabling plan. Swap the two cables on the wrong host",
                )
