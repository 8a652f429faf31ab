"""Rank tables (`RANK_TABLE_FILE`, hccl.json): which device addresses a job would use.

Versions 1.0 and 1.2 are read, of which `server_list` is alike (HCCL's user guide, cluster_info_config). Only what
concerns a host's own devices: whether a table is right in itself, and over all servers, is another question.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from preflight.facts.found import Found
from preflight.facts.quote import quote

VERSIONS = ("1.0", "1.2")
_LONGEST = 64  # no address is longer


@dataclass(frozen=True)
class RankedServer:
    """`names`: whatever it is known by: server_id, host_ip, container_ip. `addresses`: device id → device_ip.
    `twice`: devices that several ranks have, without a device_port of their own. `without_sdid`: devices without
    super_device_id, in a table of version 1.2."""

    names: frozenset[str]
    addresses: Mapping[int, str]
    twice: tuple[int, ...] = ()
    without_sdid: tuple[int, ...] = ()


@dataclass(frozen=True)
class RankTable:
    """`status`: "completed" where it is whole. `servers`: by each of their names; an error where the table is of
    another version, or not shaped like one."""

    status: str
    servers: Found[Mapping[str, RankedServer]]


@lru_cache(maxsize=4)  # all hosts of a cluster have the same text
def read(text: str) -> Found[RankTable]:
    """What a text says as a rank table; an error where it is no JSON."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Found(error=quote(str(error)))
    status = table.get("status") if isinstance(table, dict) else None
    return Found(RankTable(str(status), _servers(table)))


def _servers(table: Any) -> Found[Mapping[str, RankedServer]]:
    try:
        if table["version"] not in VERSIONS:
            return Found(error=f"version {quote(str(table['version']))} is not read, only {' and '.join(VERSIONS)}")
        found: dict[str, RankedServer] = {}
        for server in (_server(entry, super_pods=table["version"] == "1.2") for entry in table["server_list"]):
            for name in server.names:
                found.setdefault(name, server)
        return Found(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Found(error=f"it is not shaped like a rank table: {type(error).__name__}: {quote(str(error))}")


def _server(entry: Any, *, super_pods: bool) -> RankedServer:
    names = (entry.get(key) for key in ("server_id", "host_ip", "container_ip"))
    devices = entry["device"]
    if not isinstance(devices, list):
        raise TypeError("device is no list")
    ports = Counter((_id(device["device_id"]), str(device.get("device_port"))) for device in devices)
    return RankedServer(
        frozenset(name for name in names if isinstance(name, str)),
        {_id(device["device_id"]): str(device["device_ip"])[:_LONGEST] for device in devices if "device_ip" in device},
        tuple(sorted({device for (device, _), ranks in ports.items() if ranks > 1})),
        tuple(_id(device["device_id"]) for device in devices if super_pods and not device.get("super_device_id")),
    )


def _id(value: Any) -> int:
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(f"device_id {value!r} is no number")
    return int(text)
