"""The addresses of the device NICs: planned, or written out host by host."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import TypeVar

from preflight.inventory.schema import Document, FourSubnets, HostTable, OneSubnet
from preflight.model.cluster import Device, Fabric, Product

T = TypeVar("T")
Devices = tuple[Device, ...]

FOUR_SUBNETS_HOLD = 8  # devices of a host
_IN_EACH_OF_FOUR = 2  # addresses of a host in each of four subnets
_OF_AN_NPU_SERVER = 8  # devices, unless the inventory says otherwise
_FIRST = 11  # of a one-subnet plan, as an offset in its subnet


@dataclass(frozen=True)
class HostEntry:
    """One host: its [[hosts]] table, that table's number in the file, what the table's ranges give it, and which of
    the table's hosts it is, from 0 on."""

    number: int
    table: HostTable
    name: str
    address: str
    nth: int = 0


def give(document: Document, entries: list[HostEntry]) -> list[Devices]:
    """The devices of every host, in the order of `entries`; one for which the plan has no room gets no address."""
    plan = document.device_addresses
    given: list[Devices] = []
    for entry, place in zip(entries, _places(document, entries), strict=True):
        indexes = range(device_count(document, entry.table))
        if entry.table.device_addresses is not None:
            devices = [_written_out(entry.table, index) for index in indexes]
        elif isinstance(plan, FourSubnets) and place is not None:
            devices = [_in_four_subnets(plan, place, index) for index in indexes]
        elif isinstance(plan, OneSubnet) and place is not None:
            devices = [_in_one_subnet(plan, place, index) for index in indexes]
        else:
            devices = [Device(index) for index in indexes]
        given.append(tuple(replace(device, mtu=document.cluster.device_mtu) for device in devices))
    direct = document.cluster.fabric is Fabric.DIRECT and (plan is None or plan.detect is None)
    return _detecting_the_next(given) if direct or (plan and plan.detect == "next-host") else given


def device_count(document: Document, table: HostTable) -> int:
    """How many devices a host has."""
    for said in (table.devices, document.cluster.devices):
        if said is not None:
            return said
    return _OF_AN_NPU_SERVER if document.cluster.product.is_npu else 0


def in_amp_mode(document: Document) -> bool:
    """An A1 in SMP mode takes four subnets; who plans one says that its NPUs are in AMP mode."""
    return document.cluster.product is Product.ATLAS_A1 and isinstance(document.device_addresses, OneSubnet)


def slot(plan: FourSubnets | OneSubnet, entry: HostEntry) -> int | None:
    """A host's place in a plan `by` name, from 0 on: its table's `slot`, or as the number in its name says. None where
    it has none, less than 0 where its number is below `first_host`."""
    if entry.table.slot is not None:
        return entry.table.slot + entry.nth
    number = number_of(entry.name)
    return None if number is None else number - plan.first_host


def number_of(name: str) -> int | None:
    """The last number in the first label of a host's name; None where there is none."""
    label = name.partition(".")[0]
    numbers = re.findall(r"[0-9]+", "" if label.isdigit() else label)  # 10.1.0.11 is an address, no name
    return int(numbers[-1]) if numbers else None


def _places(document: Document, entries: list[HostEntry]) -> list[int | None]:
    """How many addresses (in four subnets: of each) stand before those of each host; None: it has no place."""
    plan = document.device_addresses
    if plan is None:
        return [None] * len(entries)
    if plan.by == "name":
        each = plan.per_host if isinstance(plan, OneSubnet) else _IN_EACH_OF_FOUR
        slots = [slot(plan, entry) for entry in entries]
        return [each * place if place is not None and place >= 0 else None for place in slots]
    if isinstance(plan, FourSubnets):
        return [_IN_EACH_OF_FOUR * position for position in range(len(entries))]
    places: list[int | None] = []
    before = 0
    for entry in entries:
        places.append(before)
        before += device_count(document, entry.table)
    return places


def _written_out(table: HostTable, index: int) -> Device:
    return Device(index, _at(table.device_addresses, index), _at(table.gateways, index), _at(table.detect, index))


def _at(values: Sequence[T] | None, index: int) -> T | None:
    return values[index] if values and index < len(values) else None


def _in_four_subnets(plan: FourSubnets, place: int, index: int) -> Device:
    if index >= FOUR_SUBNETS_HOLD:
        return Device(index)
    rail = index % 4
    address = int(plan.subnets[rail].network_address) + plan.first + place + index // 4
    gateway = plan.gateways[rail] if plan.gateways else None
    return _device(index, address, plan.subnets[rail], gateway, plan.detect)


def _in_one_subnet(plan: OneSubnet, place: int, index: int) -> Device:
    first = int(plan.first) if plan.first else int(plan.subnet.network_address) + _FIRST
    return _device(index, first + place + index, plan.subnet, plan.gateway, plan.detect)


def _device(
    index: int, address: int, subnet: IPv4Network, gateway: IPv4Address | None, detect: str | IPv4Address | None
) -> Device:
    if not int(subnet.network_address) < address < int(subnet.broadcast_address):
        return Device(index)
    asked = gateway if detect == "gateway" else detect if isinstance(detect, IPv4Address) else None
    return Device(index, IPv4Interface((address, subnet.prefixlen)), gateway, asked)


def _detecting_the_next(given: list[Devices]) -> list[Devices]:
    """Every device asks the same device of the next host, the last host's those of the first."""
    if len(given) < 2:
        return given
    result = []
    for devices, following in zip(given, given[1:] + given[:1], strict=True):
        peers = {device.index: device.address.ip for device in following if device.address}
        result.append(tuple(replace(d, detect=d.detect or peers.get(d.index)) if d.address else d for d in devices))
    return result
