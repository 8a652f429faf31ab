"""The addresses of a device NIC: `-ip`, `-gateway`, `-netdetect`, `-vnic`."""

import re
from dataclasses import dataclass

from preflight.facts.parsers.ascend.hccn_tool.tool_output import (
    NotUnderstoodError,
    as_address,
    blocks,
    fields,
    is_silent,
    readings,
)
from preflight.facts.reading import Found
from preflight.facts.sections.nic import Vnic
from preflight.facts.types import Reading
from preflight.model.text import quote


@dataclass(frozen=True)
class DeviceAddress:
    """The address of `-ip -g`. Both values None: no address is set."""

    address: Reading
    netmask: Reading


_IP = re.compile(r"(ipaddr|netmask) ?: ?(\S{1,39})")
_NO_IP = "no ip was preset"


def _address(block: list[str]) -> DeviceAddress:
    if _NO_IP in block[0]:
        return DeviceAddress(Reading(), Reading())
    values = fields(block, _IP)
    if "netmask" not in values:
        raise NotUnderstoodError(f"hccn_tool printed {quote(block[0])} and no netmask, which is not recognized")
    return DeviceAddress(as_address(Reading(values["ipaddr"])), as_address(Reading(values["netmask"])))


def ip(text: str) -> tuple[DeviceAddress, ...]:
    """Parse `-ip -g`. Nothing set: a failure text on 910B and later, nothing at all from old 910A drivers."""
    if is_silent(text):
        return (DeviceAddress(Reading(), Reading()),)

    def starts(line: str) -> bool:
        match = _IP.fullmatch(line)
        return (match is not None and match.group(1) == "ipaddr") or _NO_IP in line

    def entry(reading: Found[DeviceAddress]) -> DeviceAddress:
        return reading.value or DeviceAddress(Reading(error=reading.error), Reading(error=reading.error))

    return tuple(map(entry, blocks(text, starts, _address, closed=lambda line: _NO_IP in line)))


def netdetect(text: str) -> tuple[Reading, ...]:
    """Parse `-netdetect -g`: `netdetect addr:` in the driver's source, `netdetect address:` in the field."""
    return tuple(map(as_address, readings(text, re.compile(r"netdetect addr(?:ess)? ?: ?(\S{1,39})"))))


def gateway(text: str) -> tuple[Reading, ...]:
    """Parse `-gateway -g`: `default gateway:A, Iface:ethN`."""
    pattern = re.compile(r"default gateway ?: ?([^\s,]{1,39}), ?Iface ?: ?\S{1,15}")
    return tuple(map(as_address, readings(text, pattern, "no gateway was preset")))


_VNIC = re.compile(r"vnic (link status|ipaddr|netmask) ?: ?(\S{1,39})")


def _vnic(block: list[str]) -> Vnic:
    values = fields(block, _VNIC)
    for name in ("ipaddr", "netmask"):
        if error := as_address(Reading(values.get(name))).error:
            raise NotUnderstoodError(error)
    return Vnic(values["link status"], values.get("ipaddr", ""), values.get("netmask", ""))


def vnic(text: str) -> tuple[Found[Vnic], ...]:
    """Parse `-vnic -g` (A3): link, address and netmask of the NIC inside the super-pod. Known from source only."""
    return blocks(text, re.compile(r"vnic link status ?: ?(?:UP|DOWN)").fullmatch, _vnic)
