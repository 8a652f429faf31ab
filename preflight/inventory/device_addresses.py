"""Addresses of the device NICs: from a plan, or written out for each host."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from itertools import accumulate
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
    """One host with its [[hosts]] table, that table's number in the file, and its index in the table's ranges."""

    number: int
    table: HostTable
    name: str
    address: str
    nth: int = 0


def devices_of(document: Document, entries: list[HostEntry]) -> list[Devices]:
    """Return the devices of every host, in the order of `entries`. If the plan is full, a device has no address."""
    plan, mtu = document.device_addresses, document.cluster.device_mtu
    devices: list[Devices] = []
    for entry, offset in zip(entries, _offsets(document, entries), strict=True):
        indexes = range(device_count(document, entry.table))
        devices.append(tuple(replace(_device_of(plan, entry, offset, index), mtu=mtu) for index in indexes))
    direct = document.cluster.fabric is Fabric.DIRECT and (plan is None or plan.detect is None)
    return _with_next_host_detection(devices) if direct or (plan and plan.detect == "next-host") else devices


def _device_of(plan: FourSubnets | OneSubnet | None, entry: HostEntry, offset: int | None, index: int) -> Device:
    if entry.table.device_addresses is not None:
        return _written_out(entry.table, index)
    if plan is None or offset is None:
        return Device(index)
    if isinstance(plan, FourSubnets):
        return _in_four_subnets(plan, offset, index)
    return _in_one_subnet(plan, offset, index)


def device_count(document: Document, table: HostTable) -> int:
    """Return the number of devices of a host."""
    for count in (table.devices, document.cluster.devices):
        if count is not None:
            return count
    return _OF_AN_NPU_SERVER if document.cluster.product.is_npu else 0


def in_amp_mode(document: Document) -> bool:
    """Return true for an A1 with a one-subnet plan: its NPUs are in AMP mode, because SMP mode needs four subnets."""
    return document.cluster.product is Product.ATLAS_A1 and isinstance(document.device_addresses, OneSubnet)


def slot(plan: FourSubnets | OneSubnet, entry: HostEntry) -> int | None:
    """Return a host's place in a plan `by` name, from 0 on: its table's `slot`, or the number in its name.

    None if it has no number; less than 0 if its number is below `first_host`.
    """
    if entry.table.slot is not None:
        return entry.table.slot + entry.nth
    number = number_of(entry.name)
    return None if number is None else number - plan.first_host


def number_of(name: str) -> int | None:
    """Return the last number in the first label of a host's name; None if there is none."""
    label = name.partition(".")[0]
    numbers = re.findall(r"[0-9]+", "" if label.isdigit() else label)  # 10.1.0.11 is an address
    return int(numbers[-1]) if numbers else None


def _offsets(document: Document, entries: list[HostEntry]) -> list[int | None]:
    """Return for each host the number of addresses before its first one, in each subnet; None without a place."""
    plan = document.device_addresses
    if plan is None:
        return [None] * len(entries)
    if plan.by == "name":
        per_host = plan.per_host if isinstance(plan, OneSubnet) else _IN_EACH_OF_FOUR
        return [_offset_by_name(slot(plan, entry), per_host) for entry in entries]
    if isinstance(plan, FourSubnets):
        return [_IN_EACH_OF_FOUR * position for position in range(len(entries))]
    counts = (device_count(document, entry.table) for entry in entries)
    offsets: list[int | None] = list(accumulate(counts, initial=0))
    return offsets[: len(entries)]


def _offset_by_name(place: int | None, per_host: int) -> int | None:
    return None if place is None or place < 0 else per_host * place


def _written_out(table: HostTable, index: int) -> Device:
    return Device(index, _at(table.device_addresses, index), _at(table.gateways, index), _at(table.detect, index))


def _at(values: Sequence[T] | None, index: int) -> T | None:
    return values[index] if values and index < len(values) else None


def _in_four_subnets(plan: FourSubnets, offset: int, index: int) -> Device:
    if index >= FOUR_SUBNETS_HOLD:
        return Device(index)
    rail = index % 4
    address = int(plan.subnets[rail].network_address) + plan.first + offset + index // 4
    gateway = plan.gateways[rail] if plan.gateways else None
    return _device(index, address, plan.subnets[rail], gateway, plan.detect)


def _in_one_subnet(plan: OneSubnet, offset: int, index: int) -> Device:
    first = int(plan.first) if plan.first else int(plan.subnet.network_address) + _FIRST
    return _device(index, first + offset + index, plan.subnet, plan.gateway, plan.detect)


def _device(
    index: int, address: int, subnet: IPv4Network, gateway: IPv4Address | None, detect: str | IPv4Address | None
) -> Device:
    if not int(subnet.network_address) < address < int(subnet.broadcast_address):
        return Device(index)
    detected = gateway if detect == "gateway" else detect if isinstance(detect, IPv4Address) else None
    return Device(index, IPv4Interface((address, subnet.prefixlen)), gateway, detected)


def _with_next_host_detection(hosts: list[Devices]) -> list[Devices]:
    """Let every device detect the same device of the next host; the last host detects the first."""
    if len(hosts) < 2:
        return hosts
    result = []
    for devices, next_devices in zip(hosts, hosts[1:] + hosts[:1], strict=True):
        peers = {device.index: device.address.ip for device in next_devices if device.address}
        result.append(tuple(replace(d, detect=d.detect or peers.get(d.index)) if d.address else d for d in devices))
    return result
