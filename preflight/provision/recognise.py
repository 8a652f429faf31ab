"""Address plans of an inventory, recognised from the addresses that devices have. Pure.

A plan is guessed from a few addresses and then tested: by the inventory's own rules, it has to give every device the
address that it has.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from itertools import product
from pathlib import Path
from typing import Any

from preflight.inventory import InventoryError, dump, parse
from preflight.inventory.device_addresses import number_of
from preflight.model.cluster import Device, Host

_MOST_PER_HOST = 64  # addresses that a plan by host name may reserve for each host


@dataclass(frozen=True)
class _RecognisedDevice:
    """A device that has an address.

    `before`: the number of devices on the hosts before its own. `host`: its host's position. `number`: the number in
    its host's name.
    """

    before: int
    host: int
    number: int | None
    index: int
    address: IPv4Interface


def plan_of(document: Mapping[str, Any], hosts: Sequence[Host]) -> dict[str, Any] | None:
    """Return the [device_addresses] under which `document` gives the devices of `hosts` the addresses that they have.

    None if the addresses must be written out. A device without an address is ignored.
    """
    addressed = list(_addressed(hosts))
    if len(addressed) < 2:
        return None
    devices = [device for host in hosts for device in host.devices if device.address]
    for table, detect in product(_plans(addressed, devices), _detects(devices)):
        candidate = {**table, **({"detect": detect} if detect else {})}
        if _gives({**document, "device_addresses": candidate}, hosts):
            return candidate
    return None


def _addressed(hosts: Sequence[Host]) -> Iterator[_RecognisedDevice]:
    before = 0
    for position, host in enumerate(hosts):
        for device in host.devices:
            if device.address:
                yield _RecognisedDevice(before, position, number_of(host.name), device.index, device.address)
        before += len(host.devices)


def _plans(addressed: list[_RecognisedDevice], devices: list[Device]) -> Iterator[dict[str, Any]]:
    networks = {at.address.network for at in addressed}
    if len(networks) == 1:
        yield from _one_subnet(addressed, devices)
    elif len({(at.index % 4, at.address.network) for at in addressed}) == len(networks) == 4:
        yield from _four_subnets(addressed, devices)


def _one_subnet(addressed: list[_RecognisedDevice], devices: list[Device]) -> Iterator[dict[str, Any]]:
    reference = addressed[0]
    gateways = {device.gateway for device in devices}
    gateway = {"gateway": str(devices[0].gateway)} if len(gateways) == 1 and devices[0].gateway else {}
    table = {"plan": "one-subnet", "subnet": str(reference.address.network)}
    yield {**table, "first": _text(int(reference.address) - reference.before - reference.index), **gateway}
    for by_name in _by_name(addressed):
        yield {**table, **by_name, **gateway}


def _by_name(addressed: list[_RecognisedDevice]) -> Iterator[dict[str, Any]]:
    """Yield the settings that give each host a range by the number in its name, if the first two hosts fit them."""
    reference = addressed[0]
    second = next((at for at in addressed if at.number != reference.number), None)
    if second is None or reference.number is None or second.number is None:
        return
    distance = (int(second.address) - second.index) - (int(reference.address) - reference.index)
    per_host, remainder = divmod(distance, second.number - reference.number)
    if remainder == 0 and 1 <= per_host <= _MOST_PER_HOST:
        first = int(reference.address) - reference.index - per_host * (reference.number - 1)
        yield {"by": "name", "per_host": per_host, "first": _text(first)}


def _four_subnets(addressed: list[_RecognisedDevice], devices: list[Device]) -> Iterator[dict[str, Any]]:
    reference = addressed[0]
    rails = {at.index % 4: at.address.network for at in addressed}
    gateways = {device.index % 4: device.gateway for device in devices}
    table: dict[str, Any] = {"plan": "four-subnets", "subnets": [str(rails[rail]) for rail in range(4)]}
    routed = {"gateways": [str(gateways[rail]) for rail in range(4)]} if all(gateways.values()) else {}
    offset = int(reference.address) - int(reference.address.network.network_address) - reference.index // 4
    yield {**table, "first": offset - 2 * reference.host, **routed}
    if reference.number is not None:
        yield {**table, "by": "name", "first": offset - 2 * (reference.number - 1), **routed}


def _text(address: int) -> str:
    return str(IPv4Address(max(0, address)))


def _detects(devices: list[Device]) -> Iterator[str]:
    """Yield the values that the plan may have for the detect addresses; "": none."""
    detects = {device.detect for device in devices}
    if all(device.detect == device.gateway for device in devices) and None not in detects:
        yield "gateway"
    yield str(devices[0].detect) if len(detects) == 1 and None not in detects else ""
    yield "next-host"


def _gives(document: Mapping[str, Any], hosts: Sequence[Host]) -> bool:
    try:
        planned = parse(dump(document), Path("learned.toml"))
    except InventoryError:
        return False
    planned_devices = {(host.name, device.index): device for host in planned.hosts for device in host.devices}
    return all(
        (plan := planned_devices.get((host.name, device.index)))
        and (plan.address, plan.gateway, plan.detect) == (device.address, device.gateway, device.detect)
        for host in hosts
        for device in host.devices
        if device.address
    )
