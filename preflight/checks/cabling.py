"""Cabling of the device NICs, by what their switches say of themselves over LLDP."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from preflight.checks.npu import untold
from preflight.checks.registry import NPU, All, cluster_check
from preflight.facts.nic import Nic
from preflight.model.cluster import Fabric, Host
from preflight.model.finding import Finding

Leaves = Mapping[int, str]  # device → the system name of its switch
_AGREED = 0.75  # of the hosts that share a host's leaves: so many make the pattern


@dataclass(frozen=True)
class _Group:
    """The other hosts that stand on the same leaves as one host, most of them alike. `home`: where a device belongs."""

    home: Leaves
    used: frozenset[tuple[int, str]]  # (device, leaf) that at least one of them has

    def rail_of(self, leaf: str) -> int | None:
        return next((device for device, here in sorted(self.home.items()) if here == leaf), None)


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
        yield from untold(all_, host, nic[host.name], lambda device: device.neighbour)
        if not leaves[host.name] and not any(device.neighbour.error for device in nic[host.name].devices):
            yield all_.skip("no switch tells its name over LLDP", host=host.name)
    patterns = Counter(tuple(sorted(of_host.items())) for of_host in leaves.values() if of_host)
    groups = {pattern: _group(dict(pattern), patterns) for pattern in patterns}
    for host in all_.hosts:
        if own := leaves[host.name]:
            yield from _odd(all_, host, own, groups[tuple(sorted(own.items()))])
    if len(patterns) == len(leaves) == 2:
        yield from _crossed_somewhere(all_, leaves)


def _leaves(nic: Nic) -> Leaves:
    return {device.index: seen.system for device in nic.devices if (seen := device.neighbour.value) and seen.system}


def _group(own: Leaves, patterns: Mapping[tuple[tuple[int, str], ...], int]) -> _Group:
    """Who has at least half of its leaves in common with a host, whichever devices are on them."""
    mine = Counter(own.values())
    kin = Counter[tuple[tuple[int, str], ...]]()
    for pattern, hosts in patterns.items():
        others = hosts - (dict(pattern) == own)
        if others and 2 * (mine & Counter(leaf for _, leaf in pattern)).total() >= mine.total():
            kin[pattern] = others
    home = {}
    for device in own:
        seen = Counter[str]()
        for pattern, hosts in kin.items():
            seen.update({leaf: hosts for index, leaf in pattern if index == device})
        for leaf, hosts in seen.most_common(1):
            if hosts >= 2 and hosts >= _AGREED * seen.total():
                home[device] = leaf
    return _Group(home, frozenset(place for pattern in kin for place in pattern))


def _odd(all_: All, host: Host, own: Leaves, group: _Group) -> Iterator[Finding]:
    wrong = {device: leaf for device, leaf in own.items() if device in group.home and leaf != group.home[device]}
    told = set[int]()
    for device, leaf in wrong.items():
        if device in told:
            continue
        there, home = group.rail_of(leaf), group.home[device]
        if there in wrong and wrong[there] == home:
            told.add(there)
            yield all_.bad(
                f"{host.name}: device {device}: its cable and that of device {there} are swapped: on {leaf} and {home}",
                host=host.name, device=device, rail=device, expected=home, found=leaf,
                remedy=f"swap the cables of devices {device} and {there} of {host.name}",
            )  # fmt: skip
        elif there is not None:
            yield all_.bad(
                f"{host.name}: device {device}: on {leaf}, where the other hosts have device {there}", host=host.name,
                device=device, rail=device, expected=home, found=leaf,
                remedy=f"put the cable of device {device} of {host.name} into {home}",
            )  # fmt: skip
        elif (device, leaf) not in group.used:
            yield all_.warn(
                f"{host.name}: device {device}: on {leaf}; that of nearly all other hosts is on {home}",
                host=host.name, device=device, rail=device, expected=home, found=leaf,
                remedy=f"put the cable of device {device} of {host.name} into {home}, if it is not meant so",
            )  # fmt: skip


def _crossed_somewhere(all_: All, leaves: Mapping[str, Leaves]) -> Iterator[Finding]:
    """Two hosts with the same leaves in another order: one of them has swapped cables, and nobody can say which."""
    (name, own), (peer, other) = leaves.items()
    for device, leaf in own.items():
        for second in range(device + 1, max(own) + 1):
            if (
                second in own and leaf != own[second]
                and (other.get(device), other.get(second)) == (own[second], leaf)
            ):  # fmt: skip
                yield all_.warn(
                    f"{name}: device {device}: its cable and that of device {second} are swapped, here or on {peer}",
                    host=name, device=device, rail=device, peer=f"{peer}/{device}", expected=own[second], found=leaf,
                    remedy=f"look which of {name} and {peer} is cabled as planned, swap the two cables of the other",
                )  # fmt: skip
