"""Neighbours and routes of a device NIC: `-lldp`, `-arp`, `-route`."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeVar

from preflight.facts.parsers.ascend.hccn_tool.tool_output import (
    LONGEST_OUTPUT,
    NotUnderstoodError,
    as_address,
    blocks,
    is_silent,
)
from preflight.facts.reading import Found
from preflight.facts.sections.nic import Arp, DeviceRoute, Neighbour
from preflight.facts.types import Reading
from preflight.model.text import quote

Row = TypeVar("Row")

_CHASSIS, _PORT, _SYSTEM, _END = "Chassis ID TLV", "Port ID TLV", "System Name TLV", "End of LLDPDU TLV"
_PORT_NAME = re.compile(r"(?:Ifname|Local|MAC) ?: ?(\S.{0,254})")
_IFNAME = "Ifname:"


def _neighbour(block: list[str]) -> Neighbour:
    port = system = ""
    for line, next_line in pairwise([_PORT if block[0].startswith(_IFNAME) else "", *block, ""]):
        if line == _PORT and (match := _PORT_NAME.fullmatch(next_line)):
            port = match.group(1)
        elif line == _SYSTEM and not next_line.endswith(" TLV"):
            system = next_line
    if not system and block[0] == _CHASSIS and _END not in block:
        raise NotUnderstoodError(f"hccn_tool's answer ends with {quote(block[-1])}, before the name of the switch")
    return Neighbour(system, port)


def lldp(text: str) -> tuple[Found[Neighbour], ...]:
    """Parse `-lldp -g`: name and port of the switch; None where no LLDP frame came. Also of `| grep Ifname`."""
    if is_silent(text):
        return (Found(),)
    # The parts of a frame have a fixed order. An excerpt begins with the first of these parts that it has.
    first = next((part for part in (_CHASSIS, _PORT, _IFNAME, _SYSTEM) if part in text[:LONGEST_OUTPUT]), _CHASSIS)
    return blocks(text, lambda line: line.startswith(first), _neighbour, closed=lambda line: line == _END)


def leaf(text: str) -> tuple[Reading, ...]:
    """Parse `-lldp -g`: the name of the switch alone; not set where no neighbour tells one."""
    return tuple(Reading((reading.value and reading.value.system) or None, reading.error) for reading in lldp(text))


def _rows(block: list[str], like: re.Pattern[str], row: Callable[[str], Row | None]) -> tuple[Row, ...]:
    """Return the rows of a table. Raises NotUnderstoodError for a line that is `like` a row, but none."""

    def read() -> Iterator[Row]:
        for line in block[1:]:
            if (entry := row(line)) is not None:
                yield entry
            elif like.match(line):
                raise NotUnderstoodError(f"hccn_tool has the row {quote(line)} in its table, which is not recognized")

    return tuple(read())


def _is_address(text: str) -> bool:
    return not as_address(Reading(text)).error


_ARP_LIKE = re.compile(r"(?:\? )?\(")
_ARP = re.compile(
    r"(?:\? )?\(([0-9.]{7,15})\) at ([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}|<incomplete>)"
    r"(?: \[ether\])?(?: PERM)?(?: PUP)? +on (\S{1,15})"
)


def _arp(line: str) -> Arp | None:
    match = _ARP.fullmatch(line)
    if match is None or not _is_address(match.group(1)):
        return None
    address, mac, interface = match.groups()
    return Arp(address, None if mac.startswith("<") else mac, interface)


def arp(text: str) -> tuple[Found[tuple[Arp, ...]], ...]:
    """Parse `-arp -g`: addresses and MACs in the device's table; 910A in SMP mode has its neighbours' NICs, too."""
    return blocks(text, re.compile(r"arp table ?:").fullmatch, lambda block: _rows(block, _ARP_LIKE, _arp))


_ROUTE_LIKE = re.compile(r"default\s|[0-9.]{7,15}\s")
_FLAGS = re.compile(r"[A-Za-z!]{1,15}")  # `!`: the route rejects packets
_NO_GATEWAY = {"*", "-"}


def _route(line: str) -> DeviceRoute | None:
    columns = line.split(None, 8)
    if len(columns) != 8 or not _FLAGS.fullmatch(columns[3]) or len(columns[7]) > 15:
        return None
    destination, gateway, netmask, interface = *columns[:3], columns[7]
    addresses = [netmask, *({destination} - {"default"}), *({gateway} - _NO_GATEWAY)]
    if not all(map(_is_address, addresses)):
        return None
    next_hop = None if gateway in _NO_GATEWAY else as_address(Reading(gateway)).value
    return DeviceRoute(destination, next_hop, netmask, interface)


def route(text: str) -> tuple[Found[tuple[DeviceRoute, ...]], ...]:
    """Parse `-route -g`: routes of the device (`route table:` in old drivers); those of vNICs (`endXvY`) are normal."""
    heading = re.compile(r"(?:kernel ip )?rout(?:e|ing) table ?:?", re.IGNORECASE)
    below_heading = False

    def starts(line: str) -> bool:
        """Return whether the line begins a table. A heading directly below another one belongs to the same table."""
        nonlocal below_heading
        after_heading, below_heading = below_heading, heading.fullmatch(line) is not None
        return below_heading and not after_heading

    return blocks(text, starts, lambda block: _rows(block, _ROUTE_LIKE, _route))
