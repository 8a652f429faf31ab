"""Addresses of the NPUs' own network ports: as planned, unique, and by the product's rules."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface
from itertools import chain, permutations
from typing import TypeVar

from preflight.attribution.culprit_words import folded
from preflight.checks.engine.registry import NPU, All, Here, cluster_check, host_check
from preflight.checks.shared.device_scribe import DeviceScribe
from preflight.checks.shared.npu import devices_of, has_planned_address, interface_of, planned_device, unreadable
from preflight.facts.types import Hccn, HccnDevice
from preflight.model.addressing import refused_range, refused_ranges
from preflight.model.change import Area, Change, Kind, Risk
from preflight.model.cluster import Host, Product
from preflight.model.finding import Finding

_CANNOT_UNSET = "a rollback cannot remove the address, and the device keeps it until it is reset"
_PLAN_MOVED = "the plan now gives all addresses of this host to other hosts"
_MOVED_CAUSE = "hosts were added before this one in the inventory, or their order changed"
_KEEP_PLAN = 'restore the order of hosts in the inventory, or set by = "name" under [device_addresses]'
_CONFIGURE = ("preflight configure-device-ips",)
_ASKS = "This command shows the changes and asks before it sets addresses"
_A1 = frozenset({Product.ATLAS_A1})
_PLAN_ONE_SUBNET = (
    'add [device_addresses] to the inventory, with plan = "one-subnet" and your own network, such as '
    'subnet = "10.8.0.0/16"'
)
_PLAN_FOUR_SUBNETS = (
    'add [device_addresses] to the inventory, with plan = "four-subnets" and your own networks, such as '
    'subnets = ["10.8.0.0/24", "10.8.1.0/24", "10.8.2.0/24", "10.8.3.0/24"]'
)
T = TypeVar("T")


@host_check("NPU101", "Device address", products=NPU, configures=Area.ADDRESSES)
def has_address(scribe: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: NPUs in different servers communicate over their own network ports and find each other only by address. If a
    device does not have the address in the rank table, every rank waits until its connect timeout.

    Result: FAIL if a device's address differs from the plan. Without a plan, FAIL if a device has no address and the
    inventory has several hosts.

    Check manually:
      hccn_tool -i 0 -ip -g

    Fix: Write the planned addresses.
      preflight configure-device-ips
    Or set an address manually, with ADDRESS and MASK from your plan.
      hccn_tool -i 0 -ip -s address ADDRESS netmask MASK
    """
    yield from unreadable(scribe, hccn, "the address", lambda device: device.address)
    moved = _plan_moved(scribe, hccn)
    for device in hccn.devices:
        planned = planned_device(scribe.host, device.index).address
        if _needs_address(scribe, device, planned):
            npu, actual = DeviceScribe(scribe, scribe.host.name, device.index), device.address.value
            yield npu.bad(
                _address_fault(actual, planned),
                expected=str(planned or "an address"),
                found=actual or "none",
                cause=_MOVED_CAUSE if moved else "",
                remedy=_address_remedy(scribe, planned, moved=moved),
                commands=() if moved else _CONFIGURE,
                evidence=(_PLAN_MOVED,) if moved else (),
                change=_address_change(npu, device, planned, moved=moved),
            )


def _address_fault(actual: str | None, planned: IPv4Interface | None) -> str:
    if planned is None:
        return "no address, and the inventory plans none for it"
    return f"address is {actual} instead of {planned.ip}" if actual else "no address"


def _address_remedy(scribe: Here, planned: IPv4Interface | None, *, moved: bool) -> str:
    if moved:
        return _KEEP_PLAN
    return "set the planned address" if planned else f"{_add_a_plan(scribe.cluster.product)}. {_ASKS}"


def _needs_address(scribe: Here, device: HccnDevice, planned: IPv4Interface | None) -> bool:
    """Return whether the device lacks an address, or has another than the planned one. A single host needs none."""
    actual = device.address.value
    if device.address.error:
        return False
    if planned is None:
        return actual is None and len(scribe.cluster.hosts) != 1
    return actual != str(planned.ip)


def _address_change(
    npu: DeviceScribe, device: HccnDevice, planned: IPv4Interface | None, *, moved: bool
) -> Change | None:
    """Return the change to the planned address; None without a plan, or where the present setting is malformed."""
    before, is_set = interface_of(device), device.address.value is not None
    if planned is None or (is_set and before is None):
        return None
    change = npu.change(Kind.DEVICE_ADDRESS, str(before) if before else None, planned)
    if moved:
        return replace(change, risk=Risk.DISTURBING, note=_PLAN_MOVED)
    return change if is_set else replace(change, note=_CANNOT_UNSET)


def _plan_moved(scribe: Here, hccn: Hccn) -> bool:
    """Return whether a changed plan would give a provisioned host new addresses.

    One device at the address of another host's is a mistake; all of them are a plan that has moved."""
    addresses = [device.address.value for device in hccn.devices if device.address.value]
    owners = {scribe.cluster.planned_for.get(address) for address in addresses}
    return len(addresses) > 1 and not owners & {None, scribe.host.name}


@cluster_check("NPU102", "Device address uniqueness", products=NPU, several=False, configures=Area.ADDRESSES)
def addresses_unique(scribe: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: If two devices have the same address, switches send frames to the device that sent last. Connections come up
    and break at random, and no error gives the reason.

    Result: FAIL if two devices share an address.

    Check manually: Run this on every host, then search the output for duplicates.
      for i in 0 1 2 3 4 5 6 7; do hccn_tool -i $i -ip -g; done

    Fix: Give each device its planned address. Set the addresses under [device_addresses] in the inventory, or list them
    in a host's [[hosts]] entry: device_addresses = ["10.8.0.11/16"]
      preflight configure-device-ips
    """
    shared = _shared_addresses(scribe.hosts, hccn)
    lines = _inventory_lines(shared.values(), hccn)
    for address, sharers in shared.items():
        wrong_holders = _wrong_holders(address, sharers)
        relation = "is also used by" if len(wrong_holders) == len(sharers) else "belongs to"
        for host, index in wrong_holders:
            peers = [f"{peer.name}/{i}" for peer, i in sharers if (peer, i) != (host, index)]
            remedy = "set the planned address"
            if planned_device(host, index).address is None:
                remedy = lines.get((host.name, index)) or _add_a_plan(scribe.cluster.product)
            yield DeviceScribe(scribe, host.name, index).bad(
                f"address {address} {relation} {', '.join(peers)}",
                peer=peers[0],
                expected="a unique address",
                found=address,
                remedy=remedy,
                commands=_CONFIGURE,
            )


_Holder = tuple[Host, int]  # a device, by its host and its index


def _add_a_plan(product: Product) -> str:
    """Name the inventory's table that gives every device its address, with keys to paste."""
    return _PLAN_FOUR_SUBNETS if product is Product.ATLAS_A1 else _PLAN_ONE_SUBNET


def _shared_addresses(hosts: tuple[Host, ...], hccn: Mapping[str, Hccn]) -> dict[str, list[_Holder]]:
    """Return each address that several devices have, with these devices."""
    holders: dict[str, list[_Holder]] = defaultdict(list)
    for host, device in devices_of(hosts, hccn):
        if device.address.value:
            holders[device.address.value].append((host, device.index))
    return {address: sharers for address, sharers in holders.items() if len(sharers) > 1}


def _wrong_holders(address: str, sharers: Sequence[_Holder]) -> Sequence[_Holder]:
    """Return the devices that must give up the address: all but those that the inventory gives it to."""
    return [
        (host, index)
        for host, index in sharers
        if (planned := planned_device(host, index).address) is None or str(planned.ip) != address
    ] or sharers


def _inventory_lines(groups: Iterable[Sequence[_Holder]], hccn: Mapping[str, Hccn]) -> dict[tuple[str, int], str]:
    """Return the remedy of each unplanned device with an address of another device: the line for its host's [[hosts]].

    The first device of a group keeps its address where none is planned; its remedy is that of the second."""
    interfaces = {
        name: {device.index: interface_of(device) for device in hccn_of_host.devices}
        for name, hccn_of_host in hccn.items()
    }
    addresses_taken = _addresses_taken(hccn)
    moves = {device: target for group in groups for device, target in _moves(group).items()}
    for name, index in dict.fromkeys(moves.values()):
        if interface := interfaces[name][index]:
            interfaces[name][index] = _free_address(interface, addresses_taken)
    return {
        device: line for device, target in moves.items() if (line := _inventory_line(target, interfaces[target[0]]))
    }


def _moves(group: Sequence[_Holder]) -> dict[tuple[str, int], tuple[str, int]]:
    """Return the device to move for each unplanned device of the group."""
    unplanned = [(host.name, index) for host, index in group if planned_device(host, index).address is None]
    moving = unplanned if len(unplanned) < len(group) else unplanned[1:]
    return {device: device if device in moving else moving[0] for device in unplanned}


def _addresses_taken(hccn: Mapping[str, Hccn]) -> set[IPv4Address]:
    """Return the addresses of all devices, and of the machines that they have configured."""
    devices = [device for hccn_of_host in hccn.values() for device in hccn_of_host.devices]
    own = {interface.ip for interface in map(interface_of, devices) if interface}
    return own.union(*map(_not_free, devices))


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
        f"give {name} device {index} an address that no other machine has, such as {own.ip}. Under [[hosts]] for "
        f"{name} in the inventory, set device_addresses = [{addresses}]"
    )


@cluster_check(
    "NPU103",
    "Device network mask",
    products=NPU,
    several=False,
    configures=Area.ADDRESSES,
)
def masks(scribe: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: If a device's mask is too long, the device sends to its peers through a gateway that does not exist. If the
    mask is too short, the device looks for distant peers in its own subnet. Both look like a link that is dead in one
    direction.

    Result: FAIL if a mask differs from the plan or, without a plan, from most devices of its rail.

    Check manually:
      hccn_tool -i 0 -ip -g

    Fix: Write the planned addresses and masks.
      preflight configure-device-ips
    Or set them manually, with the device's own ADDRESS and the right MASK.
      hccn_tool -i 0 -ip -s address ADDRESS netmask MASK
    """
    for host, device in devices_of(scribe.hosts, hccn):
        if reason := _unknown_mask(device):
            yield DeviceScribe(scribe, host.name, device.index).unknown(reason)
    rails: dict[int, list[_AddressedDevice]] = defaultdict(list)
    for member in chain.from_iterable(_addressed(host, hccn[host.name]) for host in scribe.hosts):
        rails[member.index].append(member)
    for rail in rails.values():
        usual = _majority(member.interface.netmask for member in rail)
        for member in rail:
            if member.interface.netmask != (member.planned.netmask if member.planned else usual):
                yield _wrong_mask(scribe, member, rail, usual)


@dataclass(frozen=True)
class _AddressedDevice:
    """A device with its address and mask. `intended`: with the planned mask, where there is a plan."""

    host: Host
    index: int
    interface: IPv4Interface
    planned: IPv4Interface | None

    @property
    def intended(self) -> IPv4Interface:
        return self.planned or self.interface


def _unknown_mask(device: HccnDevice) -> str:
    """Return the reason why the mask of a device with an address is not known; empty where it is known."""
    if not device.address.value:
        return ""
    if device.netmask.error:
        return f"the mask could not be read: {device.netmask.error}"
    if not device.netmask.value:
        return "has an address but no mask"
    return "" if interface_of(device) else f"{device.netmask.value} is not a valid mask"


def _addressed(host: Host, hccn: Hccn) -> list[_AddressedDevice]:
    """Return the devices that have an address, and no other than the planned one."""
    return [
        _AddressedDevice(host, device.index, interface, planned_device(host, device.index).address)
        for device in hccn.devices
        if (interface := interface_of(device)) and has_planned_address(host, device)
    ]


def _majority(values: Iterable[T]) -> T | None:
    """Return the most common value; None where two are equally common."""
    (usual, usual_count), *other_counts = Counter(values).most_common(2)
    return None if other_counts and other_counts[0][1] == usual_count else usual


def _wrong_mask(
    scribe: All, member: _AddressedDevice, rail: Sequence[_AddressedDevice], usual: IPv4Address | None
) -> Finding:
    """Return the finding about a mask that is neither planned nor, without a plan, the rail's usual one."""
    index, interface, planned = member.index, member.interface, member.planned
    npu = DeviceScribe(scribe, member.host.name, index)
    actual = str(interface.netmask)
    if planned:
        return npu.bad(
            f"mask is {actual} instead of {planned.netmask}",
            rail=index,
            expected=str(planned.netmask),
            found=actual,
            remedy="set the planned mask",
            commands=_CONFIGURE,
            change=npu.change(Kind.DEVICE_ADDRESS, str(interface), planned),
        )
    set_usual = npu.on(f"hccn_tool -i {index} -ip -s address {interface.ip} netmask {usual}")
    return npu.bad(
        f"mask is {actual}, and most devices on the rail have {usual}"
        if usual
        else f"mask is {actual}, and other devices on the rail have another mask",
        rail=index,
        peer=next((device.host.name for device in rail if device.interface.netmask != interface.netmask), None),
        expected=str(usual or "the same mask on the whole rail"),
        found=actual,
        remedy="set the usual mask of the rail"
        if usual
        else "decide which mask is right, and set it on the whole rail",
        commands=(set_usual,) if usual else (),
    )


def _on_one_wire(device: _AddressedDevice, peer: _AddressedDevice) -> bool:
    return device.intended.ip in peer.intended.network and peer.intended.ip in device.intended.network


@cluster_check(
    "NPU105",
    "Device address subnets",
    products=_A1,
    several=False,
    configures=Area.ADDRESSES,
)
def subnet_rule(scribe: All, hccn: Mapping[str, Hccn]) -> Iterator[Finding]:
    """Why: HCCL builds its rings by the subnet rule in the vendor's installation guide and address generator. On Atlas
    A1 in SMP mode, devices 0/4, 1/5, 2/6 and 3/7 share one subnet each. Devices 0–3 are in four different subnets, and
    devices with the same number are in the same subnet on every host.

    Result: FAIL if an address breaks the rule. WARN if all eight devices are in one subnet, which is right in AMP mode.

    Check manually:
      for i in 0 1 2 3 4 5 6 7; do hccn_tool -i $i -ip -g; done

    Fix: Plan the addresses by this rule, with plan = "four-subnets" under [device_addresses] in the inventory. Then
    write the addresses.
      preflight configure-device-ips
    """
    positions: dict[int, list[_AddressedDevice]] = defaultdict(list)
    for host in scribe.hosts:
        devices = _addressed(host, hccn[host.name])
        if len(devices) > 2 and all(_on_one_wire(device, peer) for device in devices for peer in devices):
            yield scribe.warn(
                f"{host.name}: all devices share one subnet, which is valid in AMP mode only", host=host.name
            )
        else:
            yield from _on_wire_of_other_position(scribe, devices)
        for device in devices:
            positions[device.index % 4].append(device)
    for position in positions.values():
        yield from _outside_majority(scribe, position)


def _on_wire_of_other_position(scribe: All, devices: Sequence[_AddressedDevice]) -> Iterator[Finding]:
    """Yield the devices of 0 to 3 that share a subnet with an earlier one."""
    for device, later in permutations(devices, 2):
        if device.index < later.index < 4 and _on_one_wire(device, later):
            text = f"address {later.intended} is in the subnet of device {device.index}"
            yield _off_rule(scribe, later, f"{text}. Devices 0 to 3 need different subnets")


def _outside_majority(scribe: All, position: Sequence[_AddressedDevice]) -> Iterator[Finding]:
    """Yield the devices of one position that are not in the subnet of most of them; without a majority, yield all."""
    usual = _majority(device.intended.network for device in position)
    candidates = [device for device in position if usual in (None, device.intended.network)]
    for device in position:
        if device.intended.network == usual:
            continue
        if peer := next((peer for peer in candidates if not _on_one_wire(device, peer)), None):
            text = f"must share a subnet, but {_subnets(position)}"
            if usual:
                text = f"address {device.intended} is not in {usual}, the subnet of {peer.host.name}/{peer.index}"
                text += ". Both devices must share a subnet"
            yield _off_rule(scribe, device, text, peer.host)


def _subnets(devices: Sequence[_AddressedDevice]) -> str:
    """Return `node01/0,node01/4 have 10.20.0.0/24 and node02/0,node02/4 have 10.20.9.0/24`."""
    places: dict[str, list[str]] = defaultdict(list)
    for device in devices:
        places[str(device.intended.network)].append(f"{device.host.name}/{device.index}")
    return " and ".join(f"{folded(members)} have {subnet}" for subnet, members in list(places.items())[:4])


def _off_rule(scribe: All, device: _AddressedDevice, text: str, peer: Host | None = None) -> Finding:
    remedy = "correct subnets under [device_addresses], or device_addresses under [[hosts]], in the inventory. Then"
    return DeviceScribe(scribe, device.host.name, device.index).bad(
        text,
        peer=peer.name if peer and peer.name != device.host.name else None,
        found=str(device.intended),
        remedy=f"{remedy if device.planned else f'{_PLAN_FOUR_SUBNETS}. Then'} write the addresses",
        commands=_CONFIGURE,
    )


@host_check("NPU106", "Reserved device address ranges", products=NPU, configures=Area.ADDRESSES)
def not_refused(scribe: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: Some private ranges belong to the server's internal networks. hccn_tool refuses addresses in these ranges
    ("The ip address configured is conflicted!"). If such an address was set in another way, its packets are routed
    inside the server.

    Result: FAIL if the planned address is in such a range. Without a plan, FAIL if the device's address is in such a
    range.

    Check manually: Compare the address with 192.168.1.0/24 and the other ranges in the product's manual.
      hccn_tool -i 0 -ip -g

    Fix: Plan other addresses in the inventory.
    """
    ranges = refused_ranges(scribe.cluster.product, amp=scribe.cluster.amp, superpod=scribe.cluster.superpod)
    for device in hccn.devices:
        planned, actual = planned_device(scribe.host, device.index).address, interface_of(device)
        address = planned.ip if planned else actual.ip if actual else None
        range_ = refused_range(address, ranges) if address else None
        if range_:
            yield scribe.bad(
                f"{scribe.host.name}: device {device.index}: address {address} is in {range_}, which hccn_tool refuses",
                device=device.index,
                expected=f"an address outside {range_}",
                found=str(address),
                remedy=f"set addresses outside {range_} in the inventory",
                commands=_CONFIGURE,
            )


@host_check("NPU111", "Device gateway", products=NPU, configures=Area.ADDRESSES)
def gateway(scribe: Here, hccn: Hccn) -> Iterator[Finding]:
    """Why: Devices in different subnets can reach each other only through the gateway. Devices in one subnet need no
    gateway, so only planned gateways are checked.

    Result: FAIL if a device has no gateway, or has a different gateway than the inventory.

    Check manually:
      hccn_tool -i 0 -gateway -g

    Fix: Write the planned gateways.
      preflight configure-device-ips
    Or set a gateway manually, after the address, with GATEWAY from your plan.
      hccn_tool -i 0 -gateway -s gateway GATEWAY
    """
    for device in hccn.devices:
        planned, actual = planned_device(scribe.host, device.index).gateway, device.gateway.value
        npu = DeviceScribe(scribe, scribe.host.name, device.index)
        if planned and device.gateway.error:
            if device.address.value is not None:  # without an address, the tool may refuse the query
                yield npu.unknown(f"the gateway could not be read: {device.gateway.error}")
        elif planned and actual != str(planned):
            yield npu.bad(
                f"gateway is {actual} instead of {planned}" if actual else "no gateway",
                expected=str(planned),
                found=actual or "none",
                remedy="set the planned gateway",
                commands=_CONFIGURE,
                change=npu.change(Kind.DEVICE_GATEWAY, actual, planned),
            )
