"""Rules for device addresses that hold for all hosts. Every check yields the mistakes that it finds."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from itertools import combinations
from typing import NamedTuple

from preflight.inventory.device_addresses import (
    FOUR_SUBNETS_HOLD,
    Devices,
    HostEntry,
    device_count,
    in_amp_mode,
    slot,
)
from preflight.inventory.errors import Location, Mistake
from preflight.inventory.schema import Document, FourSubnets, OneSubnet
from preflight.inventory.valid_part import ValidPart
from preflight.model.addressing import refused_range, refused_ranges
from preflight.model.cluster import Device, Fabric, Product

_PLAN: Location = ("device_addresses",)
_NO_GATEWAY = "a direct fabric is a fibre between two servers, without a gateway"


class PlacedDevice(NamedTuple):
    """A device with its host."""

    entry: HostEntry
    device: Device

    def __str__(self) -> str:
        return f"{self.entry.name} device {self.device.index}"

    @property
    def planned(self) -> bool:
        return self.entry.table.device_addresses is None

    @property
    def at(self) -> Location:
        """Return the location of its address in the inventory."""
        return _PLAN if self.planned else ("hosts", self.entry.number, "device_addresses", self.device.index)


def find_mistakes(valid: ValidPart, entries: list[HostEntry], devices: list[Devices]) -> Iterator[Mistake]:
    """Yield all mistakes in device addresses. Damaged tables are not checked. [cluster] must be valid."""
    document = valid.document
    yield from _check_cluster(document)
    if valid.intact("device_addresses"):
        yield from _check_plan(document)
    for entry in {entry.number: entry for entry in entries if _is_intact(valid, entry)}.values():
        yield from _check_host(document, entry)
    placed = _placed_devices(valid, entries, devices)
    if valid.intact("device_addresses", "hosts"):
        yield from _check_hosts_for_plan(document, entries, placed)
    if document.cluster.product.is_npu:
        yield from _check_devices(document, entries, placed)


def _is_intact(valid: ValidPart, entry: HostEntry) -> bool:
    return ("hosts", entry.number) not in valid.damaged


def _placed_devices(valid: ValidPart, entries: list[HostEntry], devices: list[Devices]) -> list[PlacedDevice]:
    """Return the devices with certain addresses: all if the plan is intact, otherwise those without the plan."""
    intact_plan = valid.intact("device_addresses", "hosts")
    return [
        PlacedDevice(entry, device)
        for entry, host_devices in zip(entries, devices, strict=True)
        for device in host_devices
        if _is_intact(valid, entry) and (intact_plan or entry.table.device_addresses is not None)
    ]


def _check_cluster(document: Document) -> Iterator[Mistake]:
    """Yield keys of [cluster] about a device network that the product does not have."""
    cluster = document.cluster
    if cluster.superpod and cluster.product is not Product.ATLAS_A3:
        text = f"super-pods need atlas-a3, but the cluster is {cluster.product}"
        yield Mistake(("cluster", "superpod"), text)
    if cluster.device_mtu and not cluster.product.is_npu:
        yield Mistake(("cluster", "device_mtu"), f"{cluster.product} devices have no network port")


def _check_plan(document: Document) -> Iterator[Mistake]:
    """Yield mistakes in [device_addresses] by itself, or for the cluster's product and fabric."""
    plan, product = document.device_addresses, document.cluster.product
    if plan is None:
        return
    if not product.is_npu:
        yield Mistake(_PLAN, f"{product} devices have no addresses. Remove this table.")
        return
    if isinstance(plan, FourSubnets):
        yield from _check_four_subnets(plan, product)
    else:
        yield from _check_one_subnet(plan)
    yield from _check_gateway(plan, document.cluster.fabric)
    for key in ("first_host", "per_host") if plan.by == "order" else ():
        if key in plan.model_fields_set:
            yield Mistake((*_PLAN, key), 'works only with by = "name"')


def _check_gateway(plan: FourSubnets | OneSubnet, fabric: Fabric) -> Iterator[Mistake]:
    key = "gateways" if isinstance(plan, FourSubnets) else "gateway"
    has_gateway = bool(getattr(plan, key))
    if has_gateway and fabric is Fabric.DIRECT:
        yield Mistake((*_PLAN, key), _NO_GATEWAY)
    if plan.detect == "gateway" and not has_gateway:
        yield Mistake((*_PLAN, "detect"), f'"gateway" needs {key} in the same table')


def _check_four_subnets(plan: FourSubnets, product: Product) -> Iterator[Mistake]:
    if product is not Product.ATLAS_A1:
        text = f'four-subnets is for atlas-a1. For {product}, set plan = "one-subnet".'
        yield Mistake((*_PLAN, "plan"), text)
    for (rail, subnet), (later_rail, later) in combinations(enumerate(plan.subnets), 2):
        if subnet.overlaps(later):
            text = f"{later} overlaps subnets[{rail}], but devices {rail} and {later_rail} need different subnets"
            yield Mistake((*_PLAN, "subnets", later_rail), text)
    for rail, gateway in enumerate(plan.gateways or ()):
        if gateway not in plan.subnets[rail]:
            yield Mistake((*_PLAN, "gateways", rail), f"{gateway} is not in {plan.subnets[rail]}")


def _check_one_subnet(plan: OneSubnet) -> Iterator[Mistake]:
    if plan.first and plan.first not in plan.subnet:
        yield Mistake((*_PLAN, "first"), f"{plan.first} is not in {plan.subnet}")
    if plan.gateway and plan.gateway not in plan.subnet:
        yield Mistake((*_PLAN, "gateway"), f"{plan.gateway} is not in {plan.subnet}")


def _check_host(document: Document, entry: HostEntry) -> Iterator[Mistake]:
    """Yield mistakes in the addresses of one [[hosts]] table."""
    table, at = entry.table, ("hosts", entry.number)
    if table.device_addresses is not None:
        yield from _check_own_addresses(document, entry)
        return
    for key in ("gateways", "detect"):
        if getattr(table, key) is not None:
            yield Mistake((*at, key), "needs device_addresses in the same table")


def _check_own_addresses(document: Document, entry: HostEntry) -> Iterator[Mistake]:
    table, at = entry.table, ("hosts", entry.number)
    if not document.cluster.product.is_npu:
        text = f"{document.cluster.product} devices have no addresses. Remove this key."
        yield Mistake((*at, "device_addresses"), text)
        return
    if len(table.name) > 1:
        text = f"the same addresses for {len(table.name)} hosts. Write a separate [[hosts]] table for each host."
        yield Mistake((*at, "device_addresses"), text)
    count = device_count(document, table)
    for key in ("device_addresses", "gateways", "detect"):
        values = getattr(table, key)
        if values is not None and len(values) != count:
            yield Mistake((*at, key), f"should have {count} entries, one per device; found {len(values)}")
    if table.gateways and document.cluster.fabric is Fabric.DIRECT:
        yield Mistake((*at, "gateways"), _NO_GATEWAY)


def _check_slots(document: Document, entries: list[HostEntry]) -> Iterator[Mistake]:
    """Yield hosts without their own place in a plan by name; for each table only the first host."""
    plan = document.device_addresses
    if plan is None or plan.by == "order":
        for number, table in {entry.number: entry.table for entry in entries}.items():
            if table.slot is not None:
                yield Mistake(("hosts", number, "slot"), 'works only with device_addresses.by = "name"')
        return
    holders: dict[int, HostEntry] = {}
    reported: set[int] = set()
    for entry in entries:
        if entry.table.device_addresses is not None or entry.number in reported:
            continue
        mistake = _slot_mistake(plan, device_count(document, entry.table), entry, holders)
        if mistake:
            reported.add(entry.number)
            yield mistake


def _slot_mistake(
    plan: FourSubnets | OneSubnet, devices: int, entry: HostEntry, holders: dict[int, HostEntry]
) -> Mistake | None:
    at: Location = ("hosts", entry.number, "slot" if entry.table.slot is not None else "name")
    place = slot(plan, entry)
    if place is None:
        return Mistake(at, f"{entry.name} needs a number in its name, or a slot, to get its addresses")
    if place < 0:
        return Mistake(at, f"{entry.name} comes before device_addresses.first_host, {plan.first_host}")
    holder = holders.setdefault(place, entry)
    if holder is not entry:
        text = f"{entry.name} and {holder.name} have the same slot {place}"
        return Mistake(at, text, ("hosts", holder.number, at[2]))
    if isinstance(plan, OneSubnet) and devices > plan.per_host:
        text = f"{entry.name} has {devices} devices, but the plan has {plan.per_host} addresses per host"
        fix = "Give this host its own device_addresses. Another per_host would change all addresses."
        return Mistake((*_PLAN, "per_host"), f"{text}. {fix}")
    return None


def _check_hosts_for_plan(
    document: Document, entries: list[HostEntry], placed: list[PlacedDevice]
) -> Iterator[Mistake]:
    """Yield too few hosts for the plan, and planned devices without an address; the first one of each subnet."""
    yield from _check_next_host(document, entries)
    yield from _check_slots(document, entries)
    plan = document.device_addresses
    if plan is None:
        return
    without_address = [place for place in placed if place.planned and _is_left_out(plan, place)]
    if isinstance(plan, FourSubnets):
        yield from _check_four_subnets_capacity(document, plan, without_address)
    elif without_address and (plan.first is None or plan.first in plan.subnet):
        yield Mistake((*_PLAN, "subnet"), _full(plan.subnet, without_address))


def _check_next_host(document: Document, entries: list[HostEntry]) -> Iterator[Mistake]:
    plan = document.device_addresses
    if plan and plan.detect == "next-host" and len(entries) < 2:
        yield Mistake((*_PLAN, "detect"), "there is no next host. Set an address, or remove this key.")


def _is_left_out(plan: FourSubnets | OneSubnet, place: PlacedDevice) -> bool:
    """Return true for a device without an address. `_check_slots` reports hosts without a place."""
    if place.device.address is not None or plan.by == "order":
        return place.device.address is None
    number = slot(plan, place.entry)
    return number is not None and number >= 0


def _check_four_subnets_capacity(
    document: Document, plan: FourSubnets, without_address: list[PlacedDevice]
) -> Iterator[Mistake]:
    ninth = next((place for place in without_address if place.device.index >= FOUR_SUBNETS_HOLD), None)
    if ninth:
        count = device_count(document, ninth.entry.table)
        text = f"four-subnets supports {FOUR_SUBNETS_HOLD} devices per host, but {ninth.entry.name} has {count}"
        yield Mistake((*_PLAN, "plan"), text)
    for rail, subnet in enumerate(plan.subnets):
        on_rail = [p for p in without_address if p.device.index < FOUR_SUBNETS_HOLD and p.device.index % 4 == rail]
        if on_rail:
            yield Mistake((*_PLAN, "subnets", rail), _full(subnet, on_rail))


def _full(subnet: IPv4Network, without_address: list[PlacedDevice]) -> str:
    return f"{subnet} is full: {len(without_address)} devices get no address, first {without_address[0]}"


@dataclass(frozen=True)
class _UsedAddresses:
    """Addresses that a device cannot have: ranges of the driver, hosts by address, and first holders by address."""

    refused: tuple[IPv4Network, ...]
    hosts: dict[str, str]
    holders: dict[IPv4Address, PlacedDevice]


def _check_devices(document: Document, entries: list[HostEntry], placed: list[PlacedDevice]) -> Iterator[Mistake]:
    """Yield addresses that a device cannot have. Each kind of mistake in a plan is reported once."""
    cluster = document.cluster
    refused = refused_ranges(cluster.product, amp=in_amp_mode(document), superpod=cluster.superpod)
    holders: dict[IPv4Address, PlacedDevice] = {}
    addressed = [(place, place.device.address) for place in placed if place.device.address]
    for place, address in addressed:
        holders.setdefault(address.ip, place)
    used = _UsedAddresses(refused, {entry.address: entry.name for entry in entries}, holders)
    reported: set[str] = set()
    for place, address in addressed:
        yield from _check_holder(place, holders[address.ip], address)
        for kind, text in (*_address_mistakes(used, address), *_neighbour_mistakes(used, place, address)):
            if not place.planned or kind not in reported:
                yield Mistake(place.at, f"{place}: {text}")
            if place.planned:
                reported.add(kind)


def _check_holder(place: PlacedDevice, holder: PlacedDevice, address: IPv4Interface) -> Iterator[Mistake]:
    """Yield an address of another device. Other checks find those in a plan or in a table of several hosts."""
    if holder.at != place.at:
        yield Mistake(place.at, f"{place}: address {address.ip} is also the address of {holder}", holder.at)


def _address_mistakes(used: _UsedAddresses, address: IPv4Interface) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each mistake in an address by itself."""
    ip, network = address.ip, address.network
    if ip.is_multicast or ip.is_loopback or ip.is_unspecified or ip.is_reserved:
        yield "special", f"{ip} cannot be the address of a network port"
    elif network.prefixlen < 31 and ip in (network.network_address, network.broadcast_address):
        yield "edge", f"{ip} is the network or broadcast address of {network}"
    if range_ := refused_range(ip, used.refused):
        yield "refused", f"hccn_tool rejects {ip}: {range_} is reserved for the driver"
    if str(ip) in used.hosts:
        yield "host", f"{ip} is the address of host {used.hosts[str(ip)]}"


def _neighbour_mistakes(used: _UsedAddresses, place: PlacedDevice, address: IPv4Interface) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each mistake in a device's detect address and gateway."""
    gateway = place.device.gateway
    if place.device.detect == address.ip:
        yield "detect", f"detect is the device's own address {address.ip}"
    if gateway and gateway in used.holders:
        yield "gateway", f"gateway {gateway} is the address of {used.holders[gateway]}"
    elif gateway and gateway not in address.network and not place.planned:
        yield "gateway", f"gateway {gateway} is not in {address.network}"
