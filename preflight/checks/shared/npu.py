"""Shared by checks of NPUs: planned and actual settings, and findings where a reading is missing. Pure.

Where one cause makes several readings wrong, the check nearest to the cause speaks and the others are silent: a device
without an address is not also told that its mask, its health and /etc/hccn.conf are wrong.
"""

from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Interface
from typing import Any

from preflight.checks.engine.registry import All, Here
from preflight.facts.reading import Found
from preflight.facts.refusal import refused
from preflight.facts.types import Hccn, HccnDevice, Reading
from preflight.model.change import Area, Change, Kind, Risk
from preflight.model.cluster import Device, Host
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome


def planned_device(host: Host, index: int) -> Device:
    """What the inventory plans for a device; a device that it does not know has no plan."""
    return next((device for device in host.devices if device.index == index), Device(index))


def interface_of(device: HccnDevice) -> IPv4Interface | None:
    """Address and mask as the device has them; None where one of them is unset, unknown or malformed."""
    if device.address.value is None or device.netmask.value is None:
        return None
    try:
        return IPv4Interface(f"{device.address.value}/{device.netmask.value}")
    except ValueError:
        return None


def has_planned_address(host: Host, device: HccnDevice) -> bool:
    """Whether the device has an address, and no other than the planned one; else NPU101 speaks about it."""
    planned = planned_device(host, device.index).address
    return device.address.value is not None and (planned is None or device.address.value == str(planned.ip))


def unreadable(here: Here, hccn: Hccn, what: str, reading: Callable[[HccnDevice], Reading]) -> Iterator[Finding]:
    """One `unknown` for each device whose reading could not be taken."""
    for device in hccn.devices:
        error = reading(device).error
        if error:
            yield here.unknown(
                f"{here.host.name}: device {device.index}: {what} could not be read: {error}", device=device.index
            )


_LINK_DOWN = "Link status is down"  # the words of a query that gives nothing then; NPU107 says so


def untold(
    scribe: Here | All, host: Host, *readings: Mapping[int, Found[Any]], unset: bool = False
) -> Iterator[Finding]:
    """Where a reading was not had: an `unknown` a device, a `skip` where the product or its tool does not have it.

    `readings`: device → what was found; `unset`: no value is an answer, too. The words are the same for every check, so
    that a device of which nothing at all can be read is told once.
    """
    failed, refusals = set[tuple[int, str]](), set[tuple[tuple[int, ...], str]]()
    for reading in readings:
        errors = {
            device: found.error or ("" if unset else "its tool told nothing")
            for device, found in reading.items()
            if found.error or found.value is None
        }
        failed |= {(device, error) for device, error in errors.items() if error and not _silent(error)}
        for error in {error for error in errors.values() if _silent(error)}:
            devices = tuple(device for device in errors if errors[device] == error)
            if len(devices) == len(reading):
                refusals.add(((), error))
            elif refused(error):
                refusals.add((devices, error))
    for devices, error in sorted(refusals):
        which = f"device{'s' if len(devices) > 1 else ''} {', '.join(map(str, devices))}: " if devices else ""
        yield scribe.finding(Outcome.SKIP, f"{host.name}: {which}not told: {error}", host=host.name)
    for device, error in sorted(failed):
        yield scribe.finding(
            Outcome.UNKNOWN, f"{host.name}: device {device}: could not look: {error}", host=host.name, device=device
        )


def _silent(error: str) -> bool:
    return refused(error) or _LINK_DOWN in error


def with_link(hccn: Hccn) -> frozenset[int]:
    """The devices whose link is not known to be down: about the others NPU107 speaks."""
    return frozenset(device.index for device in hccn.devices if device.link.value != "DOWN")


def device_change(
    scribe: Here | All,
    host: Host,
    kind: Kind,
    device: int,
    before: str | None,
    after: object,
    *,
    risk: Risk = Risk.SAFE,
    note: str = "",
) -> Change:
    """A change of one setting of one device. Safe by default: the plan leaves a device alone that a job uses."""
    return Change(host.name, Area.ADDRESSES, kind, str(device), before, str(after), scribe.check.id, risk, note)
