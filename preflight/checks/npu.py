"""What the checks of NPUs share: the plan beside the reading, and findings where there is no reading. Pure.

Where one cause makes several readings wrong, the check nearest to the cause speaks and the others are silent: a device
without an address is not also told that its mask, its health and /etc/hccn.conf are wrong.
"""

from collections.abc import Callable, Iterator
from ipaddress import IPv4Interface
from typing import Any

from preflight.checks.registry import All, Here
from preflight.facts.found import Found
from preflight.facts.nic import Nic, NicDevice
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


# What the tool says where the product does not have a query, where one gives nothing on a link that is down (NPU107
# says so).
_UNSUPPORTED, _LINK_DOWN = "not supported on this product", "Link status is down"


def untold(scribe: Here | All, host: Host, nic: Nic, reading: Callable[[NicDevice], Found[Any]]) -> Iterator[Finding]:
    """Where a reading was not had: an `unknown` a device, a `skip` where the host's product does not have the query.

    The words are the same for every check, so that a device of which nothing at all can be read is told once.
    """
    errors = {device.index: error for device in nic.devices if (error := reading(device).error)}
    if errors and all(_UNSUPPORTED in error for error in errors.values()):
        yield scribe.finding(Outcome.SKIP, f"hccn_tool does not tell: {min(errors.values())}", host=host.name)
        return
    for index, error in errors.items():
        if _LINK_DOWN not in error and _UNSUPPORTED not in error:
            yield scribe.finding(
                Outcome.UNKNOWN, f"{host.name}: device {index}: could not look: {error}", host=host.name, device=index
            )


def with_link(hccn: Hccn) -> frozenset[int]:
    """The devices whose link is not known to be down: about the others NPU107 speaks."""
    return frozenset(device.index for device in hccn.devices if device.link.value != "DOWN")


def device_change(
    scribe: Here | All, host: Host, kind: Kind, device: int, before: str | None, after: object, *,
    risk: Risk = Risk.SAFE, note: str = "",
) -> Change:  # fmt: skip
    """A change of one setting of one device. Safe by default: the plan leaves a device alone that a job uses."""
    return Change(host.name, Area.ADDRESSES, kind, str(device), before, str(after), scribe.check.id, risk, note)
