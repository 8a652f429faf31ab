"""Device addresses that cannot be, whatever the hosts are like. Every function yields what it finds wrong."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from itertools import combinations
from typing import NamedTuple

from preflight.inventory.device_addresses import FOUR_SUBNETS_HOLD, HostEntry, device_count, in_amp_mode, slot
from preflight.inventory.errors import Location, Mistake
from preflight.inventory.schema import Document, FourSubnets, OneSubnet
from preflight.model.addressing import refused_range, refused_ranges
from preflight.model.cluster import Device, Fabric, Product

_PLAN: Location = ("device_addresses",)
_NO_GATEWAY = "a direct fabric is a fibre between two servers: it has no gateway"


def of_the_cluster(document: Document) -> Iterator[Mistake]:
    """What [cluster] says of the devices' network that this product does not have."""
    cluster = document.cluster
    if cluster.superpod and cluster.product is not Product.ATLAS_A3:
        yield Mistake(("cluster", "superpod"), f"super-pods are of atlas-a3, the cluster is of {cluster.product}")
    if cluster.device_mtu and not cluster.product.is_npu:
        yield Mistake(("cluster", "device_mtu"), f"{cluster.product} devices have no network port of their own")


def of_the_plan(document: Document) -> Iterator[Mistake]:
    """What is wrong with [device_addresses] by itself, or for a cluster of this product and fabric."""
    plan, product = document.device_addresses, document.cluster.product
    if plan is None:
        return
    if not product.is_npu:
        yield Mistake(_PLAN, f"{product} devices have no addresses of their own; remove this table")
        return
    if isinstance(plan, FourSubnets):
        key, gateway = "gateways", bool(plan.gateways)
        yield from _of_four_subnets(plan, product)
    else:
        key, gateway = "gateway", bool(plan.gateway)
        yield from _of_one_subnet(plan)
    if gateway and document.cluster.fabric is Fabric.DIRECT:
        yield Mistake((*_PLAN, key), _NO_GATEWAY)
    if plan.detect == "gateway" and not gateway:
        yield Mistake((*_PLAN, "detect"), f'"gateway" needs {key} beside it')
    for only in ("first_host", "per_host") if plan.by == "order" else ():
        if only in plan.model_fields_set:
            yield Mistake((*_PLAN, only), 'counts in a plan by = "name" only')


def _of_four_subnets(plan: FourSubnets, product: Product) -> Iterator[Mistake]:
    if product is not Product.ATLAS_A1:
        text = f'four-subnets is the rule of atlas-a1; {product} takes plan = "one-subnet"'
        yield Mistake((*_PLAN, "plan"), text)
    for (rail, subnet), (other_rail, other) in combinations(enumerate(plan.subnets), 2):
        if subnet.overlaps(other):
            text = f"{other} overlaps subnets[{rail}]; devices {rail} and {other_rail} need different ones"
            yield Mistake((*_PLAN, "subnets", other_rail), text)
    for rail, gateway in enumerate(plan.gateways or ()):
        if gateway not in plan.subnets[rail]:
            yield Mistake((*_PLAN, "gateways", rail), f"{gateway} is not in {plan.subnets[rail]}")


def _of_one_subnet(plan: OneSubnet) -> Iterator[Mistake]:
    if plan.first and plan.first not in plan.subnet:
        yield Mistake((*_PLAN, "first"), f"{plan.first} is not in {plan.subnet}")
    if plan.gateway and plan.gateway not in plan.subnet:
        yield Mistake((*_PLAN, "gateway"), f"{plan.gateway} is not in {plan.subnet}")


def of_a_host(document: Document, entry: HostEntry) -> Iterator[Mistake]:
    """What is wrong with the addresses that are written out for one host."""
    table, at = entry.table, ("hosts", entry.number)
    if table.device_addresses is None:
        for key in ("gateways", "detect"):
            if getattr(table, key) is not None:
                yield Mistake((*at, key), "needs device_addresses beside it")
        return
    if not document.cluster.product.is_npu:
        text = f"{document.cluster.product} devices have no addresses of their own; remove this key"
        yield Mistake((*at, "device_addresses"), text)
        return
    if len(table.name) > 1:
        text = f"written out for {len(table.name)} hosts at once; give each a [[hosts]] of its own"
        yield Mistake((*at, "device_addresses"), text)
    count = device_count(document, table)
    for key in ("device_addresses", "gateways", "detect"):
        values = getattr(table, key)
        if values is not None and len(values) != count:
            yield Mistake((*at, key), f"should have {count} entries, one a device; found {len(values)}")
    if table.gateways and document.cluster.fabric is Fabric.DIRECT:
        yield Mistake((*at, "gateways"), _NO_GATEWAY)


def of_slots(document: Document, entries: list[HostEntry]) -> Iterator[Mistake]:
    """Hosts without a place of their own in a plan by name; of the hosts of one table the first is told."""
    plan = document.device_addresses
    if plan is None or plan.by == "order":
        for number, table in {entry.number: entry.table for entry in entries}.items():
            if table.slot is not None:
                yield Mistake(("hosts", number, "slot"), 'counts with device_addresses.by = "name" only')
        return
    holders: dict[int, HostEntry] = {}
    told: set[int] = set()
    for entry in entries:
        if entry.table.device_addresses is not None or entry.number in told:
            continue
        problem = _without_a_place(plan, device_count(document, entry.table), entry, holders)
        if problem:
            told.add(entry.number)
            yield problem


def _without_a_place(
    plan: FourSubnets | OneSubnet, devices: int, entry: HostEntry, holders: dict[int, HostEntry]
) -> Mistake | None:
    at: Location = ("hosts", entry.number, "slot" if entry.table.slot is not None else "name")
    place = slot(plan, entry)
    if place is None:
        return Mistake(at, f"{entry.name} has no number, which gives a host its addresses here; give it a slot")
    if place < 0:
        return Mistake(at, f"{entry.name} comes before device_addresses.first_host, {plan.first_host}")
    holder = holders.setdefault(place, entry)
    if holder is not entry:
        text = f"{entry.name} has slot {place}, which is that of {holder.name}; give one of them another slot"
        return Mistake(at, text, ("hosts", holder.number, at[2]))
    if isinstance(plan, OneSubnet) and devices > plan.per_host:
        text = f"{entry.name} has {devices} devices, and {plan.per_host} addresses a host are kept"
        return Mistake((*_PLAN, "per_host"), f"{text}; write out this host's (another number moves all)")
    return None


class Placed(NamedTuple):
    """A device on its host."""

    entry: HostEntry
    device: Device

    def __str__(self) -> str:
        return f"{self.entry.name} device {self.device.index}"

    @property
    def planned(self) -> bool:
        return self.entry.table.device_addresses is None

    @property
    def at(self) -> Location:
        """Where the inventory says its address."""
        return _PLAN if self.planned else ("hosts", self.entry.number, "device_addresses", self.device.index)


def of_hosts_for_the_plan(document: Document, entries: list[HostEntry], placed: list[Placed]) -> Iterator[Mistake]:
    """Hosts that are too few, or planned devices that no address is left for; of each subnet the first is told."""
    plan = document.device_addresses
    if plan and plan.detect == "next-host" and len(entries) < 2:
        yield Mistake((*_PLAN, "detect"), "there is no next host; name an address, or leave it out")
    yield from of_slots(document, entries)
    left_over = [place for place in placed if place.planned and place.device.address is None]
    if plan and plan.by == "name":  # a host without a place has been told
        slots = ((place, slot(plan, place.entry)) for place in left_over)
        left_over = [place for place, number in slots if number is not None and number >= 0]
    if isinstance(plan, FourSubnets):
        ninth = next((place for place in left_over if place.device.index >= FOUR_SUBNETS_HOLD), None)
        if ninth:
            count = device_count(document, ninth.entry.table)
            text = f"four-subnets has places for {FOUR_SUBNETS_HOLD} devices a host; {ninth.entry.name} has {count}"
            yield Mistake((*_PLAN, "plan"), text)
        for rail, subnet in enumerate(plan.subnets):
            rest = [p for p in left_over if p.device.index < FOUR_SUBNETS_HOLD and p.device.index % 4 == rail]
            if rest:
                text = f"{subnet} is full: {len(rest)} devices get no address, the first is {rest[0]}"
                yield Mistake((*_PLAN, "subnets", rail), text)
    elif plan and left_over and (plan.first is None or plan.first in plan.subnet):
        text = f"{plan.subnet} is full: {len(left_over)} devices get no address, the first is {left_over[0]}"
        yield Mistake((*_PLAN, "subnet"), text)


def of_devices(document: Document, entries: list[HostEntry], placed: list[Placed]) -> Iterator[Mistake]:
    """Addresses that a device cannot have. What a plan gets wrong in the same way many times is told once."""
    cluster = document.cluster
    refused = refused_ranges(cluster.product, amp=in_amp_mode(document), superpod=cluster.superpod)
    hosts = {entry.address: entry.name for entry in entries}
    holders: dict[IPv4Address, Placed] = {}
    for place in placed:
        if place.device.address:
            holders.setdefault(place.device.address.ip, place)
    told: set[str] = set()
    for place in placed:
        if not place.device.address:
            continue
        holder = holders[place.device.address.ip]
        if holder.at != place.at:  # within a plan, or a table of several hosts, the cause is told elsewhere
            text = f"{place}: address {place.device.address.ip} is used twice, by {holder} too"
            yield Mistake(place.at, text, holder.at)
        for kind, text in _impossible(refused, hosts, holders, place, place.device.address):
            if not place.planned or kind not in told:
                yield Mistake(place.at, f"{place}: {text}")
            if place.planned:
                told.add(kind)


def _impossible(
    refused: tuple[IPv4Network, ...],
    hosts: dict[str, str],
    holders: dict[IPv4Address, Placed],
    place: Placed,
    address: IPv4Interface,
) -> Iterator[tuple[str, str]]:
    """(kind, sentence) of what is wrong with one device's address."""
    ip, network, gateway = address.ip, address.network, place.device.gateway
    if ip.is_multicast or ip.is_loopback or ip.is_unspecified or ip.is_reserved:
        yield "special", f"{ip} is no address that a network port can have"
    elif network.prefixlen < 31 and ip in (network.network_address, network.broadcast_address):
        yield "edge", f"{ip} is the network or broadcast address of {network}"
    if range_ := refused_range(ip, refused):
        yield "refused", f"hccn_tool refuses {ip}: the driver uses {range_} itself"
    if str(ip) in hosts:
        yield "host", f"{ip} is the address of host {hosts[str(ip)]}"
    if place.device.detect == ip:
        yield "detect", f"detect is its own address {ip}"
    if gateway and gateway in holders:
        yield "gateway", f"gateway {gateway} is the address of {holders[gateway]}"
    elif gateway and gateway not in network and not place.planned:
        yield "gateway", f"gateway {gateway} is not in {network}"
