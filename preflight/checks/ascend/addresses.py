"""Addresses of the NPUs' own network ports: as planned, unique, and by the product's rules."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Interface

from preflight.checks.engine.registry import NPU, All, Here, cluster_check, host_check
from preflight.checks.shared.npu import device_change, has_planned_address, interface_of, planned_device, unreadable
from preflight.facts.types import Hccn, HccnDevice
from preflight.model.addressing import refused_range, refused_ranges
from preflight.model.change import Area, Kind, Risk
from preflight.model.cluster import Host, Product
from preflight.model.finding import Finding

_CANNOT_UNSET = "a device has no way to drop an address: rolled back, it keeps this one until it is reset"
_PLAN_MOVED = (
    "all its addresses are those that the plan gives to other hosts: hosts were added before it, or the order changed; "
    'device_addresses.by = "name" keeps them'
)
_A1 = frozenset({Product.ATLAS_A1})
_PLAN_ONE_SUBNET = (
    'add [device_addresses] to the inventory, with plan = "one-subnet" and subnet = "10.8.0.0/16" (your own network)'
)
_PLAN_FOUR_SUBNETS = (
    'add [device_addresses] to the inventory, with plan = "four-subnets" and subnets = ["10.8.0.0/24", "10.8.1.0/24", '
    '"10.8.2.0/24", "10.8.3.0/24"] (your own networks)'
)
_THEN_CONFIGURE = "then run: preflight configure-device-ips"


@host_check("NPU101", "Every device has its address", products=NPU, configures=Area.ADDRESSES)
def has_address(here: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: between servers, NPUs talk over their own network ports, and the address is all they are found by. A device
    without one, or with another one than the rank table says, makes every rank wait for its connect timeout.

    By hand: hccn_tool -i 0 -ip -g

    Mend: preflight configure-device-ips, or hccn_tool -i 0 -ip -s address A netmask M
    """
    yield from unreadable(here, hccn, "the address", lambda device: device.address)
    plan_moved = _plan_moved(here, hccn)
    for device in hccn.devices:
        planned, actual = planned_device(here.host, device.index).address, device.address.value
        if device.address.error or (actual is None and planned is None and len(here.cluster.hosts) == 1):
            continue
        if actual is None or (planned and actual != str(planned.ip)):
            before, is_wrong = interface_of(device), actual is not None
            change = None
            if planned and (before or not is_wrong):
                change = device_change(
                    here,
                    here.host,
                    Kind.DEVICE_ADDRESS,
                    device.index,
                    str(before) if before else None,
                    planned,
                    risk=Risk.DISTURBING if plan_moved else Risk.SAFE,
                    note=_PLAN_MOVED if plan_moved else "" if is_wrong else _CANNOT_UNSET,
                )
            yield here.bad(
                f"{here.host.name}: device {device.index}: " + (f"address {actual}" if is_wrong else "no address"),
                device=device.index,
                expected=str(planned or "an address"),
                found=actual or "none",
                remedy="preflight configure-device-ips" if planned else _add_a_plan(here.cluster.product),
                cause=_PLAN_MOVED if plan_moved else "",
                change=change,
            )


def _plan_moved(here: Here, hccn: Hccn) -> bool:
    """Return whether a changed plan would give a provisioned host new addresses.

    One device at the address of another host's is a mistake; all of them are a plan that has moved."""
    addresses = [device.address.value for device in hccn.devices if device.address.value]
    owners = {here.cluster.planned_for.get(address) for address in addresses}
    return len(addresses) > 1 and not owners & {None, here.host.name}


@cluster_check(
    "NPU102", "Every device address is unique in the cluster", products=NPU, several=False, configures=Area.ADDRESSES
)
def addresses_unique(all_: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: with two devices at one address, switches send frames to whichever spoke last: connections come up and
    break at random, and no error names the reason.

    By hand: for i in 0 1 2 3 4 5 6 7; do hccn_tool -i $i -ip -g; done   (on every host, then look for duplicates)

    Mend: preflight configure-device-ips gives each device its planned address. Addresses are planned under
    [device_addresses] in the inventory, or written out under [[hosts]] of one host: device_addresses = ["10.8.0.11/16"]
    """
    holders: dict[str, list[_Holder]] = defaultdict(list)
    for host in all_.hosts:
        for device in hccn[host.name].devices:
            if device.address.value:
                holders[device.address.value].append((host, device.index))
    shared = {address: sharers for address, sharers in holders.items() if len(sharers) > 1}
    lines = _inventory_lines(shared.values(), hccn)
    for address, sharers in shared.items():
        # The device that the inventory gives this address to keeps it.
        wrong = [
            (h, i) for h, i in sharers if (p := planned_device(h, i).address) is None or str(p.ip) != address
        ] or sharers
        for host, index in wrong:
            other_holders = [f"{h.name}/{i}" for h, i in sharers if (h, i) != (host, index)]
            yield all_.bad(
                f"{host.name}: device {index}: its address {address} is also that of {', '.join(other_holders)}",
                host=host.name,
                device=index,
                peer=other_holders[0],
                expected="an address of its own",
                found=address,
                remedy="preflight configure-device-ips"
                if planned_device(host, index).address
                else lines.get((host.name, index)) or f"{_add_a_plan(all_.cluster.product)}; {_THEN_CONFIGURE}",
            )


_Holder = tuple[Host, int]  # a device, by its host and its index


def _add_a_plan(product: Product) -> str:
    """Name the inventory's table that gives every device its address, with keys to paste."""
    return _PLAN_FOUR_SUBNETS if product is Product.ATLAS_A1 else _PLAN_ONE_SUBNET


def _inventory_lines(groups: Iterable[Sequence[_Holder]], hccn: Mapping[str, Hccn]) -> dict[tuple[str, int], str]:
    """Return the remedy of each unplanned device with an address of another device: the line for its host's [[hosts]].

    The first device of a group keeps its address where none is planned; its remedy is that of the second."""
    interfaces = {
        name: {device.index: interface_of(device) for device in hccn_of_host.devices}
        for name, hccn_of_host in hccn.items()
    }
    addresses_taken = {interface.ip for own in interfaces.values() for interface in own.values() if interface}
    addresses_taken |= {
        address for hccn_of_host in hccn.values() for device in hccn_of_host.devices for address in _not_free(device)
    }
    moves: dict[tuple[str, int], tuple[str, int]] = {}  # device → the device to move, of its group
    for group in groups:
        unplanned = [(host.name, index) for host, index in group if planned_device(host, index).address is None]
        moving = unplanned if len(unplanned) < len(group) else unplanned[1:]
        for name, index in moving:
            if interface := interfaces[name][index]:
                interfaces[name][index] = _free_address(interface, addresses_taken)
        moves |= {device: device if device in moving else moving[0] for device in unplanned if moving}
    return {
        device: line for device, target in moves.items() if (line := _inventory_line(target, interfaces[target[0]]))
    }


def _not_free(device: HccnDevice) -> Iterator[IPv4Address]:
    """Yield the addresses that belong to other machines as this device has them configured."""
    for reading in (device.gateway, device.detect):
        with suppress(ValueError):
            yield IPv4Address(reading.value or "")


def _free_address(interface: IPv4Interface, taken: set[IPv4Address]) -> IPv4Interface | None:
    """Return the next address of the same network that no device has, and count it as taken; None where all are."""
    free = interface.ip + 1
    while free in taken:
        free += 1
    if free >= interface.network.broadcast_address:
        return None
    taken.add(free)
    return IPv4Interface(f"{free}/{interface.network.prefixlen}")


def _inventory_line(moved: tuple[str, int], interfaces: Mapping[int, IPv4Interface | None]) -> str:
    """Return the remedy with the host's addresses written out; empty where one of them is not known."""
    name, index = moved
    own = interfaces[index]
    if own is None or None in interfaces.values():
        return ""
    addresses = ", ".join(f'"{interface}"' for _, interface in sorted(interfaces.items()))
    return (
        f"give {name} device {index} an address that no other machine has, such as {own.ip}: under [[hosts]] of {name} "
        f"in the inventory, device_addresses = [{addresses}]; {_THEN_CONFIGURE}"
    )


@cluster_check(
    "NPU103",
    "Every device has the planned mask, equal across its rail",
    products=NPU,
    several=False,
    configures=Area.ADDRESSES,
)
def masks(all_: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: a device whose mask is too long sends to its peers through a gateway that is not there; one whose mask is
    too short looks for distant peers on its own wire. Both look like a dead link from one side only.

    By hand: hccn_tool -i 0 -ip -g

    Mend: preflight configure-device-ips, or hccn_tool -i 0 -ip -s address A netmask M with the right mask
    """
    rails: dict[int, list[tuple[Host, IPv4Interface]]] = defaultdict(list)
    for host in all_.hosts:
        for device in hccn[host.name].devices:
            if device.address.value and device.netmask.error:
                yield all_.unknown(
                    f"{host.name}: device {device.index}: the mask could not be read: {device.netmask.error}",
                    host=host.name,
                    device=device.index,
                )
            interface = interface_of(device)
            if interface is None and device.address.value and not device.netmask.error:
                mask = device.netmask.value or "nothing"
                yield all_.unknown(
                    f"{host.name}: device {device.index}: {mask} is no mask", host=host.name, device=device.index
                )
            if interface and has_planned_address(host, device):
                rails[device.index].append((host, interface))
    for index, rail in rails.items():
        (usual, usual_count), *other_counts = Counter(str(interface.netmask) for _, interface in rail).most_common()
        if any(count == usual_count for _, count in other_counts):
            usual = "the same along the rail"  # no majority, so no mask is the right one
        for host, interface in rail:
            planned = planned_device(host, index).address
            wanted = str(planned.netmask) if planned else usual
            if str(interface.netmask) != wanted:
                peer = next(
                    (
                        peer_host.name
                        for peer_host, peer_interface in rail
                        if peer_interface.netmask != interface.netmask
                    ),
                    None,
                )
                yield all_.bad(
                    f"{host.name}: device {index}: mask {interface.netmask}",
                    host=host.name,
                    device=index,
                    rail=index,
                    peer=None if planned else peer,
                    expected=wanted,
                    found=str(interface.netmask),
                    remedy="preflight configure-device-ips"
                    if planned
                    else f"hccn_tool -i {index} -ip -s address {interface.ip} netmask M, with the rail's mask",
                    change=device_change(all_, host, Kind.DEVICE_ADDRESS, index, str(interface), planned)
                    if planned
                    else None,
                )


def _on_one_wire(one: IPv4Interface, other: IPv4Interface) -> bool:
    return one.ip in other.network and other.ip in one.network


@cluster_check(
    "NPU105",
    "Device addresses follow the product's subnet rule",
    products=_A1,
    several=False,
    configures=Area.ADDRESSES,
)
def subnet_rule(all_: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: on Atlas A1 in SMP mode devices 0/4, 1/5, 2/6 and 3/7 share a subnet each, devices 0–3 stand in four
    different ones, and a position has the same subnet on every host (vendor's installation guide and address
    generator). HCCL builds its rings by that rule. In AMP mode one subnet for all eight is right: a warning here.

    By hand: hccn_tool -i 0 -ip -g, for devices 0 to 7

    Mend: plan the addresses by the rule (in the inventory: the A1 plan of four subnets), then configure-device-ips
    """
    positions: dict[int, list[tuple[Host, int, IPv4Interface]]] = defaultdict(list)
    for host in all_.hosts:
        interfaces = {
            device.index: planned_device(host, device.index).address or interface
            for device in hccn[host.name].devices
            if (interface := interface_of(device)) and has_planned_address(host, device)
        }
        flat = len(interfaces) > 2 and all(_on_one_wire(a, b) for a in interfaces.values() for b in interfaces.values())
        if flat:
            yield all_.warn(
                f"{host.name}: all devices share one subnet, which is right in AMP mode only", host=host.name
            )
        for index, interface in interfaces.items():
            positions[index % 4].append((host, index, interface))
            for second in range(index + 1, 4):
                if not flat and second in interfaces and _on_one_wire(interface, interfaces[second]):
                    yield _off_rule(all_, host, second, interfaces[second], f"be in another subnet than device {index}")
    for position in positions.values():
        yield from _elsewhere(all_, position)


def _elsewhere(all_: All, position: list[tuple[Host, int, IPv4Interface]]) -> Iterator[Finding]:
    """Yield the devices of one position that are not in the subnet of most of them; without a majority, yield all."""
    (usual, usual_count), *other_counts = Counter(interface.network for _, _, interface in position).most_common()
    tie = any(count == usual_count for _, count in other_counts)
    for host, index, interface in position:
        candidates = (
            (peer_host.name, f"{peer_host.name}/{device} ({peer_interface})")
            for peer_host, device, peer_interface in position
            if (tie or peer_interface.network == usual) and not _on_one_wire(interface, peer_interface)
        )
        if (tie or interface.network != usual) and (counterpart := next(candidates, None)):
            peer, where = counterpart
            yield _off_rule(
                all_, host, index, interface, f"share a subnet with {where}", peer if peer != host.name else None
            )


def _off_rule(
    all_: All, host: Host, device: int, interface: IPv4Interface, rule: str, peer: str | None = None
) -> Finding:
    return all_.bad(
        f"{host.name}: device {device}: {interface} should {rule}",
        host=host.name,
        device=device,
        peer=peer,
        found=str(interface),
        remedy="correct the plan in the inventory, then preflight configure-device-ips",
    )


@host_check(
    "NPU106", "No device address lies in a range that hccn_tool refuses", products=NPU, configures=Area.ADDRESSES
)
def not_refused(here: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: some private ranges belong to the server's inner networks. hccn_tool refuses them ("The ip address
    configured is conflicted!"), and an address there that slipped in by another way is routed inside the server.

    By hand: compare hccn_tool -i 0 -ip -g with 192.168.1.0/24 and the other ranges of the product's manual

    Mend: plan other addresses in the inventory
    """
    ranges = refused_ranges(here.cluster.product, amp=here.cluster.amp, superpod=here.cluster.superpod)
    for device in hccn.devices:
        planned, actual = planned_device(here.host, device.index).address, interface_of(device)
        address = planned.ip if planned else actual.ip if actual else None
        range_ = refused_range(address, ranges) if address else None
        if range_:
            yield here.bad(
                f"{here.host.name}: device {device.index}: {address} lies in {range_}, which hccn_tool refuses",
                device=device.index,
                expected=f"an address outside {range_}",
                found=str(address),
                remedy="plan addresses in another range: under [device_addresses] in the inventory",
            )


@host_check("NPU111", "Every device has the planned gateway", products=NPU, configures=Area.ADDRESSES)
def gateway(here: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: devices in different subnets reach each other through the gateway only. Within one subnet none is needed,
    so only what the inventory plans is asked for.

    By hand: hccn_tool -i 0 -gateway -g

    Mend: preflight configure-device-ips, or hccn_tool -i 0 -gateway -s gateway G (the address has to be set first)
    """
    for device in hccn.devices:
        planned, actual = planned_device(here.host, device.index).gateway, device.gateway.value
        name = f"{here.host.name}: device {device.index}"
        if planned and device.gateway.error:
            if device.address.value is not None:  # without an address, the tool may refuse the query
                yield here.unknown(
                    f"{name}: the gateway could not be read: {device.gateway.error}", device=device.index
                )
        elif planned and actual != str(planned):
            yield here.bad(
                f"{name}: " + (f"gateway {actual}" if actual else "no gateway"),
                device=device.index,
                expected=str(planned),
                found=actual or "none",
                remedy="preflight configure-device-ips",
                change=device_change(here, here.host, Kind.DEVICE_GATEWAY, device.index, actual, planned),
            )
