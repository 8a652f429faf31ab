"""Planned and actual settings of NPUs, and findings about missing readings. Pure.

If one cause makes several readings wrong, only the check nearest to the cause reports it. For a device without an
address, the mask, the health and /etc/hccn.conf are not reported as well."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Interface
from itertools import product
from typing import Any

from preflight.checks.engine.registry import All, Here
from preflight.facts.reading import Found
from preflight.facts.refusal import refused
from preflight.facts.types import Hccn, HccnDevice, Reading
from preflight.model.cluster import Device, Host
from preflight.model.finding import Finding
from preflight.model.ip import read_ipv4_interface


def planned_device(host: Host, index: int) -> Device:
    """Return the inventory's plan for a device; a device that is not in the inventory has an empty plan."""
    return next((device for device in host.devices if device.index == index), Device(index))


def devices_of(hosts: tuple[Host, ...], hccn: Mapping[str, Hccn]) -> Iterator[tuple[Host, HccnDevice]]:
    """Yield every device with its host."""
    return ((host, device) for host in hosts for device in hccn[host.name].devices)


def interface_of(device: HccnDevice) -> IPv4Interface | None:
    """Return address and mask as the device has them; None where one of them is unset, unknown or malformed."""
    if device.address.value is None or device.netmask.value is None:
        return None
    try:
        return read_ipv4_interface(f"{device.address.value}/{device.netmask.value}")
    except ValueError:
        return None


def has_planned_address(host: Host, device: HccnDevice) -> bool:
    """Return whether the device has an address, and no other than the planned one; NPU101 reports the rest."""
    planned = planned_device(host, device.index).address
    return device.address.value is not None and (planned is None or device.address.value == str(planned.ip))


def unreadable(here: Here, hccn: Hccn, what: str, reading: Callable[[HccnDevice], Reading]) -> Iterator[Finding]:
    """Yield one `unknown` for each device with a failed reading."""
    for device in hccn.devices:
        error = reading(device).error
        if error:
            place = f"{here.host.name}: device {device.index}"
            yield here.unknown(f"{place}: {what} could not be read: {error}", device=device.index)


_LINK_DOWN = "Link status is down"  # the error of a query on a link that is down, which NPU107 reports


def untold(
    scribe: Here | All, host: Host, *readings: Mapping[int, Found[Any]], unset: bool = False
) -> Iterator[Finding]:
    """Yield the findings about missing readings: an `unknown` a device, or a `skip` where the product or its tool lacks
    the reading.

    `readings`: device → reading. `unset`: no value is an answer, too. The words are the same for every check, so that a
    wholly unreadable device is reported once."""
    failed, refusals = set[tuple[int, str]](), set[tuple[tuple[int, ...], str]]()
    for reading in readings:
        for error, devices in _by_error(reading, unset=unset).items():
            if not _silent(error):
                failed.update(product(devices, [error]))
            elif len(devices) == len(reading):
                refusals.add(((), error))
            elif refused(error):
                refusals.add((tuple(devices), error))
    for numbers, error in sorted(refusals):
        subject = f"device{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}: " if numbers else ""
        yield scribe.skip(f"{host.name}: {subject}values are not reported: {error}", host=host.name)
    for device, error in sorted(failed):
        summary = f"{host.name}: device {device}: could not be checked: {error}"
        yield scribe.unknown(summary, host=host.name, device=device)


def _by_error(reading: Mapping[int, Found[Any]], *, unset: bool) -> dict[str, list[int]]:
    by_error: dict[str, list[int]] = defaultdict(list)
    for device, result in reading.items():
        if result.error or (result.value is None and not unset):
            by_error[result.error or "the tool reported nothing"].append(device)
    return by_error


def _silent(error: str) -> bool:
    return refused(error) or _LINK_DOWN in error


def with_link(hccn: Hccn) -> frozenset[int]:
    """Return the devices with a link that is not known to be down. NPU107 reports the others."""
    return frozenset(device.index for device in hccn.devices if device.link.value != "DOWN")
