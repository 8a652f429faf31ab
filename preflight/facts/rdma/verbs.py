"""`ibv_devinfo` (libibverbs) and `rdma link` (iproute2)."""

import re

from preflight.facts.found import Missing
from preflight.facts.quote import quote
from preflight.facts.rdma.port import RdmaPort, RdmaPorts, Reader, pair, whole_lines

_DEVINFO_KEYS = {
    "fw_ver": "firmware", "node_guid": "node_guid", "board_id": "board_id", "state": "state", "max_mtu": "mtu_max",
    "active_mtu": "mtu", "sm_lid": "sm_lid", "port_lid": "lid", "link_layer": "link_layer",
}  # fmt: skip
_LINK_KEYS = {
    "state": "state", "physical_state": "physical_state", "netdev": "netdev", "lid": "lid", "sm_lid": "sm_lid",
}  # fmt: skip
_HCA = re.compile(r"hca_id:\s{1,20}([A-Za-z][\w.-]{0,60})", re.ASCII)
_PORT = re.compile(r"port:\s{1,20}([0-9]{1,3})", re.ASCII)
_LINK = re.compile(r"link ([A-Za-z][\w.-]{0,60})/([0-9]{1,3}) (.{1,400})", re.ASCII)


def ibv_devinfo(text: str) -> RdmaPorts | Missing:
    """`ibv_devinfo`. `active_mtu: 1024` on Ethernet means that the interface has 1500; 4096 takes 4192 and more."""
    reader = Reader("ibv_devinfo", _DEVINFO_KEYS)
    found: list[RdmaPort] = []
    device, number = "", None
    of_device: dict[str, str] = {}
    of_port: dict[str, str] = {}

    def close() -> None:
        if number is not None:
            if "state" not in of_port:
                reader.note(f"{device} port {number} has no state: the text was cut")
            found.append(reader.port(device, number, of_device | of_port))
        elif device:
            reader.note(f"{device} has no port: the text was cut")

    for line in whole_lines(text, reader):
        if match := _HCA.fullmatch(line):
            close()
            device, number, of_device, of_port = match.group(1), None, {}, {}
        elif device and (match := _PORT.fullmatch(line)):
            if number is not None:
                close()
            number, of_port = int(match.group(1)), {}
        elif device:
            key, value = pair(line)
            into = of_device if number is None else of_port
            if into.setdefault(key, value) != value:
                reader.note(f"{device}: {quote(key)} comes twice")
                into[key] = ""
        elif "No IB devices found" in line or "Failed to get IB devices list" in line:
            reader.note(f"it said {quote(line)}: no RDMA device is there, or its driver is not loaded")
    close()
    return reader.ports(found, "ibv_devinfo said", text)


def rdma_link(text: str) -> RdmaPorts | Missing:
    """`rdma link show`: a line a port, of words that come in pairs."""
    reader = Reader("rdma link", _LINK_KEYS)
    found: list[RdmaPort] = []
    for line in whole_lines(text, reader):
        match = _LINK.fullmatch(line)
        words = match.group(3).split() if match else []
        if match is None or len(words) % 2:
            reader.note(f"{quote(line)} is not understood")
            continue
        found.append(reader.port(match.group(1), int(match.group(2)), dict(zip(words[::2], words[1::2], strict=True))))
    return reader.ports(found, "rdma link said", text)
