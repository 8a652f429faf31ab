"""/sys/class/infiniband: ports, their counters and GIDs, without any tool.

A line is a path and a value, as `grep -rs . /sys/class/infiniband/*/` prints them (`mlx5_0/ports/1/state: 4: ACTIVE`),
with or without the folders before the device's name.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from preflight.facts.parsers.rdma.gids import Gid, with_address
from preflight.facts.parsers.rdma.port import RdmaPort, Reader, whole_lines
from preflight.facts.reading import Missing
from preflight.model.text import quote

_LINE = re.compile(
    r"(?:/sys/(?:[\w.:-]{1,60}/){0,20}?infiniband/|\./)?"
    r"([A-Za-z][\w.-]{0,60})/((?:ports/([0-9]{1,3})/)?[\w/.@+-]{1,100}): ?(.{1,200})",
    re.ASCII,
)
_COUNTER = re.compile(r"ports/[0-9]{1,3}/((?:hw_)?counters)/(\w{1,60})", re.ASCII)
_KINDS: dict[str, Literal["v1", "v2"]] = {"IB/RoCE v1": "v1", "RoCE v2": "v2"}
_KEYS = {
    "state": "state",
    "phys_state": "physical_state",
    "rate": "rate",
    "link_layer": "link_layer",
    "lid": "lid",
    "sm_lid": "sm_lid",
    "fw_ver": "firmware",
    "hca_type": "model",
    "board_id": "board_id",
    "node_guid": "node_guid",
}


@dataclass(frozen=True)
class PortCounters:
    """The counters of a port since the driver was loaded. `values`: those of counters/ and hw_counters/, by name."""

    device: str
    port: int
    values: dict[str, int]


@dataclass(frozen=True)
class SysfsPorts:
    ports: tuple[RdmaPort, ...]
    counters: tuple[PortCounters, ...]
    gids: tuple[Gid, ...]
    unread: tuple[Missing, ...] = ()


class _Values:
    """The values below /sys/class/infiniband so far, by device, and by device and port."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._of_devices: dict[str, dict[str, str]] = defaultdict(dict)
        self.of_ports: dict[tuple[str, int], dict[str, str]] = {}
        self.counters: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)

    def read(self, line: str) -> None:
        match = _LINE.fullmatch(line)
        if match is None:
            if not line.startswith("grep: "):
                self._reader.note(f"{quote(line)} is not recognized")
            return
        device, path, port, value = match.groups()
        place = (device, int(port or 0))
        values = self.of_ports.setdefault(place, {}) if port else self._of_devices[device]
        if counter := _COUNTER.fullmatch(path):
            self._count(self.counters[place], counter.group(2), value, line)
            return
        key = path.removeprefix(f"ports/{port}/")
        if values.setdefault(key, value.strip()) != value.strip():
            self._reader.note(f"{device}: {quote(path)} is listed twice")
            values[key] = ""

    def _count(self, counters: dict[str, int], name: str, value: str, line: str) -> None:
        if re.fullmatch(r"[0-9]{1,20}", value, re.ASCII) and name not in counters:
            counters[name] = int(value)
        else:
            self._reader.note(f"{quote(line)} is not a count, or is listed twice")

    def ports(self) -> list[RdmaPort]:
        return [
            self._reader.port(*place, self._of_devices.get(place[0], {}) | values)
            for place, values in self.of_ports.items()
        ]


def infiniband(text: str) -> SysfsPorts | Missing:
    """Parse `grep -rs . /sys/class/infiniband/*/`: RDMA ports, their counters and GIDs."""
    reader = Reader("/sys/class/infiniband", _KEYS)
    values = _Values(reader)
    for line in whole_lines(text, reader):
        values.read(line)
    ports = reader.ports(values.ports(), "no port of /sys/class/infiniband in", text)
    if isinstance(ports, Missing):
        return ports
    counters = tuple(PortCounters(*place, counts) for place, counts in values.counters.items())
    gids = tuple(gid for place, pairs in values.of_ports.items() for gid in _gids(place, pairs, reader))
    return SysfsPorts(ports.ports, counters, gids, tuple(reader.unread))


def _gids(place: tuple[str, int], pairs: dict[str, str], reader: Reader) -> Iterator[Gid]:
    """Yield the GIDs of filled slots. An empty slot has a GID of zeros, and neither kind nor interface."""
    for path, value in pairs.items():
        if not re.fullmatch(r"gids/[0-9]{1,5}", path, re.ASCII) or set(value) <= set("0:"):
            continue
        index = path.removeprefix("gids/")
        kind = _KINDS.get(pairs.get(f"gid_attrs/types/{index}", ""))
        netdev = pairs.get(f"gid_attrs/ndevs/{index}")
        gid = kind and with_address(Gid(*place, int(index), value, None, kind, netdev))
        if gid:
            yield gid
        else:
            reader.note(f"{place[0]} port {place[1]}: the GID {quote(value)} of slot {index} has no kind, or is none")
