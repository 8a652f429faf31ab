"""Cabling of the device NICs, by what their switches say of themselves over LLDP."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.checks.shared.npu import untold
from preflight.facts.sections.nic import Nic
from preflight.model.cluster import Fabric
from preflight.model.finding import Finding

Leaves = Mapping[int, str]  # device → the system name of its switch
_AGREED = 0.75  # of the hosts that share a host's leaves: so many make the pattern


@dataclass(frozen=True)
class _Group:
    """The other hosts that stand on the same leaves as one host, most of them alike. `home`: where a device belongs."""

    home: Leaves
    hosts: int  # a bit a host

    def rail_of(self, leaf: str) -> int | None:
        return next((device for device, here in sorted(self.home.items()) if here == leaf), None)


class _Fabric:
    """Which hosts have what; a set of hosts is a number, a bit a host, since thousands are compared with thousands."""

    def __init__(self, leaves: Iterable[Leaves]) -> None:
        self.on: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))  # device → leaf → hosts
        self.told: dict[int, int] = defaultdict(int)  # device → hosts that tell its leaf
        self.with_devices: dict[tuple[str, int], int] = defaultdict(int)  # (leaf, n) → hosts with n or more there
        for number, own in enumerate(leaves):
            for device, leaf in own.items():
                self.on[device][leaf] |= 1 << number
                self.told[device] |= 1 << number
            for leaf, devices in Counter(own.values()).items():
                for at_least in range(1, devices + 1):
                    self.with_devices[leaf, at_least] |= 1 << number
        self.shared = {
            device: {leaf: hosts for leaf, hosts in leaves.items() if hosts.bit_count() > 1}
            for device, leaves in self.on.items()
        }  # as `on`; only these can be where most have a device

    def group(self, number: int, own: Leaves) -> _Group:
        """Who has at least half of the host's leaves in common with it, whichever devices are on them."""
        common = [
            self.with_devices[leaf, at_least]
            for leaf, devices in Counter(own.values()).items()
            for at_least in range(1, devices + 1)
        ]
        kin = _in_at_least((len(own) + 1) // 2, common) & ~(1 << number)
        home = {device: leaf for device in own if (leaf := self._home(device, kin))}
        return _Group(home, kin)

    def _home(self, device: int, kin: int) -> str:
        """The leaf that nearly all of them have the device on; empty: there is none."""
        enough = max(2, _AGREED * (self.told[device] & kin).bit_count())
        return next((leaf for leaf, hosts in self.shared[device].items() if (hosts & kin).bit_count() >= enough), "")


def _in_at_least(number: int, sets: Iterable[int]) -> int:
    """Who is in so many of the sets."""
    in_ = [-1] + [0] * number  # in 0 of those looked at, in 1 …
    for one in sets:
        for so_many in range(number, 0, -1):
            in_[so_many] |= in_[so_many - 1] & one
    return in_[number]


@cluster_check("NIC105", "Every device is cabled as the same device of the other hosts", products=NPU)
def cabling(all_: All, nic: Mapping[str, Nic]) -> Iterator[Finding]:
    """Why: fabrics for accelerators put the same device of every host on one leaf switch. Two swapped cables still give
    links that are up; traffic then takes a longer way, or none where every rail has a subnet of its own. Hosts are
    compared with those on the same leaves, so several leaves a rail are no fault; only what nearly all others (three
    quarters, at least two) have differently is.

    By hand: hccn_tool -i 0 -lldp -g, for each device of two hosts

    Mend: put the cables where the other hosts have theirs
    """
    if all_.cluster.fabric is Fabric.DIRECT:
        yield all_.skip("the device NICs are wired to each other, not to a switch")
        return
    leaves = {host.name: _leaves(nic[host.name]) for host in all_.hosts}
    for host in all_.hosts:
        yield from untold(all_, host, {d.index: d.neighbour for d in nic[host.name].devices}, unset=True)
        if not leaves[host.name] and not any(device.neighbour.error for device in nic[host.name].devices):
            yield all_.skip("no switch tells its name over LLDP", host=host.name)
    told = {name: own for name, own in leaves.items() if own}
    fabric = _Fabric(told.values())
    for number, (name, own) in enumerate(told.items()):
        yield from _odd(all_, name, own, fabric.group(number, own), fabric)
    if len(told) == len(leaves) == 2:
        yield from _crossed_somewhere(all_, leaves)


def _leaves(nic: Nic) -> Leaves:
    return {device.index: seen.system for device in nic.devices if (seen := device.neighbour.value) and seen.system}


def _odd(all_: All, name: str, own: Leaves, group: _Group, fabric: _Fabric) -> Iterator[Finding]:
    wrong = {device: leaf for device, leaf in own.items() if device in group.home and leaf != group.home[device]}
    told = set[int]()
    for device, leaf in wrong.items():
        if device in told:
            continue
        home = group.home[device]
        swapped = (other for other in wrong if other not in told and (wrong[other], group.home[other]) == (home, leaf))
        there = group.rail_of(leaf)
        more: dict[str, Any] = {"host": name, "device": device, "rail": device, "expected": home, "found": leaf}
        if (other := next(swapped, None)) is not None:
            told.add(other)
            yield all_.bad(
                f"{name}: device {device}: its cable and that of device {other} are swapped: on {leaf} and {home}",
                remedy=f"swap the cables of devices {device} and {other} of {name}",
                **more,
            )
        elif there is not None:
            yield all_.bad(
                f"{name}: device {device}: on {leaf}, where the other hosts have device {there}",
                remedy=f"put the cable of device {device} of {name} into {home}",
                **more,
            )
        elif not group.hosts & fabric.on[device][leaf]:
            yield all_.warn(
                f"{name}: device {device}: on {leaf}; that of nearly all other hosts is on {home}",
                remedy=f"put the cable of device {device} of {name} into {home}, if it is not meant so",
                **more,
            )


def _crossed_somewhere(all_: All, leaves: Mapping[str, Leaves]) -> Iterator[Finding]:
    """Two hosts with the same leaves in another order: one of them has swapped cables, and nobody can say which."""
    (name, own), (peer, other) = leaves.items()
    told = set[int]()
    for device, leaf in own.items():
        for second in range(device + 1, max(own) + 1):
            if (
                second in own
                and leaf != own[second]
                and not told & {device, second}
                and (other.get(device), other.get(second)) == (own[second], leaf)
            ):
                told |= {device, second}
                yield all_.warn(
                    f"{name}: device {device}: its cable and that of device {second} are swapped, here or on {peer}",
                    host=name,
                    device=device,
                    rail=device,
                    peer=f"{peer}/{device}",
                    expected=own[second],
                    found=leaf,
                    remedy=f"look which of {name} and {peer} is cabled as planned, swap the two cables of the other",
                )
