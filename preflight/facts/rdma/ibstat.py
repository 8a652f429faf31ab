"""`ibstat` and `ibstatus`, of infiniband-diags."""

import re

from preflight.facts.found import Missing
from preflight.facts.quote import quote
from preflight.facts.rdma.port import RdmaPort, RdmaPorts, Reader, pair, whole_lines

_CA = re.compile(r"CA '([A-Za-z][\w.-]{0,60})'", re.ASCII)
_PORT = re.compile(r"Port ([0-9]{1,3}):", re.ASCII)
_IBSTATUS = re.compile(r"Infiniband device '([A-Za-z][\w.-]{0,60})' port ([0-9]{1,3}) status:", re.ASCII)
_IBSTAT_KEYS = {
    "CA type": "model", "Firmware version": "firmware", "Node GUID": "node_guid", "State": "state",
    "Physical state": "physical_state", "Rate": "rate", "Base lid": "lid", "SM lid": "sm_lid",
    "Link layer": "link_layer",
}  # fmt: skip
_IBSTATUS_KEYS = {
    "base lid": "lid", "sm lid": "sm_lid", "state": "state", "phys state": "physical_state", "rate": "rate",
    "link_layer": "link_layer",
}  # fmt: skip
_NO_IB = "no RDMA device: its driver is not loaded, or none is there"


def ibstat(text: str) -> RdmaPorts | Missing:
    """`ibstat`: good answers are told, also where it ends with an error.

    It does so where a device is there in name only, such as a virtual function that was taken away."""
    reader = Reader("ibstat", _IBSTAT_KEYS)
    found: list[RdmaPort] = []
    device, number, ports = "", None, 0
    of_device: dict[str, str] = {}
    of_port: dict[str, str] = {}

    def close() -> None:
        if number is not None:
            if "State" not in of_port:
                reader.note(f"{device} port {number} has no state: the text was cut")
            found.append(reader.port(device, number, of_device | of_port))

    for line in whole_lines(text, reader):
        if match := _CA.fullmatch(line):
            close()
            if ports:
                reader.note(f"{device} lacks {ports} of its ports")
            device, number, ports, of_device, of_port = match.group(1), None, 0, {}, {}
        elif device and (match := _PORT.fullmatch(line)):
            close()
            number, ports, of_port = int(match.group(1)), ports - 1, {}
        elif line.startswith(("ibpanic:", "ibwarn:")):
            reader.note(f"it said {quote(line)}: a device is there in name only, as after a virtual function was taken")
        elif device:
            key, value = pair(line)
            if key == "Number of ports" and value.isdecimal() and len(value) < 4:
                ports = int(value)
            into = of_device if number is None else of_port
            if into.setdefault(key, value) != value:
                reader.note(f"{device}: {quote(key)} comes twice")
                into[key] = ""
    close()
    if device and ports:
        reader.note(f"{device} lacks {ports} of its ports: the text was cut")
    return reader.ports(found, "ibstat said", text)


def ibstatus(text: str) -> RdmaPorts | Missing:
    """`ibstatus`, a script that reads sysfs."""
    reader = Reader("ibstatus", _IBSTATUS_KEYS)
    found: list[RdmaPort] = []
    place: tuple[str, int] | None = None
    pairs: dict[str, str] = {}

    def close() -> None:
        if place is not None:
            if "state" not in pairs:
                reader.note(f"{place[0]} port {place[1]} has no state: the text was cut")
            found.append(reader.port(*place, pairs))

    for line in whole_lines(text, reader):
        if match := _IBSTATUS.fullmatch(line):
            close()
            place, pairs = (match.group(1), int(match.group(2))), {}
        elif line.startswith("Fatal error:"):
            reader.note(f"it said {quote(line)}: {_NO_IB}")
        elif place is not None:
            key, value = pair(line)
            if pairs.setdefault(key, value) != value:
                reader.note(f"{place[0]}: {quote(key)} comes twice")
                pairs[key] = ""
    close()
    return reader.ports(found, "ibstatus said", text)
