"""The addresses of the device NICs: planned, or written out host by host."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import TypeVar

from preflight.inventory.schema import Document, FourSubnets, HostTable, OneSubnet
from preflight.model.cluster import Device, Fabric

T = TypeVar("T")
Devices = tuple[Device, ...]

FOUR_SUBNETS_HOLD = 8  # devices of a host
_OF_AN_NPU_SERVER = 8  # devices, unless the inventory says otherwise
_FIRST = 11  # of a one-subnet plan, as an offset in its subnet


@dataclass(frozen=True)
class Entry:
    """One host: its [[hosts]] table, that table's number in the file, and what the table's ranges give it."""

    number: int
    table: HostTable
    name: str
    address: str


def give(document: Document, entries: list[Entry]) -> list[Devices]:
    """The devices of every host, in the order of `entries`; one for which the plan has no room gets no address."""
    plan = document.device_addresses
    given: list[Devices] = []
    placed = 0  # devices of the hosts before
    for position, entry in enumerate(entries):
        count = device_count(document, entry.table)
        if entry.table.device_addresses is not None:
            given.append(tuple(_written_out(entry.table, index) for index in range(count)))
        elif isinstance(plan, FourSubnets):
            given.append(tuple(_in_four_subnets(plan, position, index) for index in range(count)))
        elif isinstance(plan, OneSubnet):
            given.append(tuple(_in_one_subnet(plan, placed, index) for index in range(count)))
        else:
            given.append(tuple(Device(index) for index in range(count)))
        placed += count
    direct = document.cluster.fabric is Fabric.DIRECT and (plan is None or plan.detect is None)
    return _detecting_the_next(given) if direct or (plan and plan.detect == "next-host") else given


def device_count(document: Document, table: HostTable) -> int:
    """How many devices a host has."""
    for said in (table.devices, document.cluster.devices):
        if said is not None:
            return said
    return _OF_AN_NPU_SERVER if document.cluster.product.is_npu else 0


def _written_out(table: HostTable, index: int) -> Device:
    return Device(index, _at(table.device_addresses, index), _at(table.gateways, index), _at(table.detect, index))


def _at(values: Sequence[T] | None, index: int) -> T | None:
    return values[index] if values and index < len(values) else None


def _in_four_subnets(plan: FourSubnets, position: int, index: int) -> Device:
    if index >= FOUR_SUBNETS_HOLD:
        return Device(index)
    rail = index % 4
    address = int(plan.subnets[rail].network_address) + plan.first + 2 * position + index // 4
    gateway = plan.gateways[rail] if plan.gateways else None
    return _device(index, address, plan.subnets[rail], gateway, plan.detect)


def _in_one_subnet(plan: OneSubnet, placed: int, index: int) -> Device:
    first = int(plan.first) if plan.first else int(plan.subnet.network_address) + _FIRST
    return _device(index, first + placed + index, plan.subnet, plan.gateway, plan.detect)


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
