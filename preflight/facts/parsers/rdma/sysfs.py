"""/sys/class/infiniband: ports, their counters and GIDs, without any tool.

A line is a path and a value, as `grep -rs . /sys/class/infiniband/*/` prints them (`mlx5_0/ports/1/state: 4: ACTIVE`),
with or without what stands before the device's name.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from preflight.facts.parsers.rdma.gids import Gid, made
from preflight.facts.parsers.rdma.port import RdmaPort, Reader, whole_lines
from preflight.facts.quote import quote
from preflight.facts.reading import Missing

_LINE = re.compile(
    r"(?:/sys/(?:[\w.:-]{1,60}/){0,20}?infiniband/|\./)?"
    r"([A-Za-z][\w.-]{0,60})/((?:ports/([0-9]{1,3})/)?[\w/.@+-]{1,100}): ?(.{1,200})",
    re.ASCII,
)
_COUNTER = re.compile(r"ports/[0-9]{1,3}/((?:hw_)?counters)/(\w{1,60})", re.ASCII)
_KINDS: dict[str, Literal["v1", "v2"]] = {"IB/RoCE v1": "v1", "RoCE v2": "v2"}
_KEYS = {
    "state": "state", "phys_state": "physical_state", "rate": "rate", "link_layer": "link_layer", "lid": "lid",
    "sm_lid": "sm_lid", "fw_ver": "firmware", "hca_type": "model", "board_id": "board_id", "node_guid": "node_guid",
}  # fmt: skip


@dataclass(frozen=True)
class PortCounters:
    """`values`: counters/ and hw_counters/ of the port, by name; since the driver was loaded."""

    device: str
    port: int
    values: dict[str, int]


@dataclass(frozen=True)
class SysfsPorts:
    ports: tuple[RdmaPort, ...]
    counters: tuple[PortCounters, ...]
    gids: tuple[Gid, ...]
    unread: tuple[Missing, ...] = ()


def infiniband(text: str) -> SysfsPorts | Missing:
    """`grep -rs . /sys/class/infiniband/*/`: RDMA ports, their counters and GIDs."""
    reader = Reader("/sys/class/infiniband", _KEYS)
    of_devices: dict[str, dict[str, str]] = defaultdict(dict)
    of_ports: dict[tuple[str, int], dict[str, str]] = {}
    counters: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for line in whole_lines(text, reader):
        match = _LINE.fullmatch(line)
        if match is None:
            if not line.startswith("grep: "):
                reader.note(f"{quote(line)} is not understood")
            continue
        device, path, port, value = match.groups()
        place = (device, int(port or 0))
        into = of_ports.setdefault(place, {}) if port else of_devices[device]
        if counter := _COUNTER.fullmatch(path):
            if re.fullmatch(r"[0-9]{1,20}", value, re.ASCII) and counter.group(2) not in counters[place]:
                counters[place][counter.group(2)] = int(value)
            else:
                reader.note(f"{quote(line)} is no count, or comes twice")
        else:
            key = path.removeprefix(f"ports/{port}/")
            if into.setdefault(key, value.strip()) != value.strip():
                reader.note(f"{device}: {quote(path)} comes twice")
                into[key] = ""
    ports = [reader.port(*place, of_devices.get(place[0], {}) | pairs) for place, pairs in of_ports.items()]
    found = reader.ports(ports, "no port of /sys/class/infiniband in", text)
    if isinstance(found, Missing):
        return found
    told = tuple(PortCounters(*place, values) for place, values in counters.items())
    gids = tuple(gid for place, pairs in of_ports.items() for gid in _gids(place, pairs, reader))
    return SysfsPorts(found.ports, told, gids, tuple(reader.unread))


def _gids(place: tuple[str, int], pairs: dict[str, str], reader: Reader) -> Iterator[Gid]:
    """Those of the slots that are filled; an empty one has a GID of zeros, and neither kind nor interface."""
    for path, value in pairs.items():
        if not re.fullmatch(r"gids/[0-9]{1,5}", path, re.ASCII) or set(value) <= set("0:"):
            continue
        index = path.removeprefix("gids/")
        kind = _KINDS.get(pairs.get(f"gid_attrs/types/{index}", ""))
        gid = kind and made(*place, int(index), value, kind, pairs.get(f"gid_attrs/ndevs/{index}"))
        if gid:
            yield gid
        else:
            reader.note(f"{place[0]} port {place[1]}: the GID {quote(value)} of slot {index} has no kind, or is none")
