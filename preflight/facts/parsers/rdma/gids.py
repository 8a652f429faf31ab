"""GIDs of RoCE ports, by the index that NCCL_IB_GID_INDEX names, and `show_gids` (mlnx-tools) that prints them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv6Address
from typing import Literal

from preflight.facts.parsers.rdma.port import DEVICE, Reader, whole_lines
from preflight.facts.reading import Missing
from preflight.model.text import quote

_COLUMNS = ["DEV", "PORT", "INDEX"]
# DEV PORT INDEX GID [IPv4] VER [DEV]
_ROW = re.compile(
    rf"({DEVICE.pattern}) ([0-9]{{1,5}}) ([0-9]{{1,5}}) (\S+)(?: ([0-9.]+))? (v1|v2)(?: (\S+))?", re.ASCII
)
_NAME = re.compile(r"[\w.@:-]{1,40}", re.ASCII)
_COUNT = re.compile(r"n_gids_found=([0-9]{1,6})", re.ASCII)
MOST = 10_000


@dataclass(frozen=True)
class Gid:
    """A GID. `address`: the IPv4 address that it is mapped from; None if it is not mapped.

    `kind`: that of its packets; only RoCE v2 is routed. `netdev`: None if the port has none (InfiniBand).
    """

    device: str
    port: int
    index: int
    gid: str
    address: str | None
    kind: Literal["v1", "v2"]
    netdev: str | None


@dataclass(frozen=True)
class Gids:
    gids: tuple[Gid, ...]
    unread: tuple[Missing, ...] = ()


def show_gids(text: str) -> Gids | Missing:
    """Parse `show_gids`: a row a GID; the last line counts them."""
    reader = Reader("show_gids", {})
    gids, has_frame = _gids(whole_lines(text, reader), reader)
    if not gids and (reader.unread or not has_frame):
        return reader.unread[0] if has_frame else Missing(f"show_gids printed {quote(text[:100_000])}")
    if len({(gid.device, gid.port, gid.index) for gid in gids}) < len(gids):
        return Missing("show_gids lists a GID twice: the output of several hosts or calls is mixed together")
    return Gids(tuple(gids), tuple(reader.unread))


def _gids(rows: Iterator[str], reader: Reader) -> tuple[list[Gid], bool]:
    """Return the GIDs, and whether there is a heading or a count. Rows that are not understood are noted."""
    gids: list[Gid] = []
    has_frame = False
    for row in rows:
        words = row.split()
        if words[:3] == _COLUMNS:
            has_frame = True
        elif match := _COUNT.fullmatch(row):
            has_frame = True
            if int(match.group(1)) != len(gids):
                reader.note(f"the output counts {match.group(1)} GIDs, but has {len(gids)} readable lines")
        elif set(row) <= set("- \t"):
            continue
        elif (gid := _gid(" ".join(words))) and len(gids) < MOST:
            gids.append(gid)
        else:
            reader.note(f"{quote(row)} is not recognized")
    return gids, has_frame


def _gid(row: str) -> Gid | None:
    match = _ROW.fullmatch(row)
    if match is None:
        return None
    device, port, index, gid, address, version, netdev = match.groups()
    kind: Literal["v1", "v2"] = "v1" if version == "v1" else "v2"
    result = with_address(Gid(device, int(port), int(index), gid, None, kind, netdev))
    return result if result and result.address == address else None


def with_address(gid: Gid) -> Gid | None:
    """Return the GID with the IPv4 address in it; None if it is no GID, or its `netdev` no name of an interface."""
    try:
        mapped = IPv6Address(gid.gid).ipv4_mapped
    except AddressValueError:
        return None
    if "%" in gid.gid or (gid.netdev is not None and not _NAME.fullmatch(gid.netdev)):
        return None
    return replace(gid, address=None if mapped is None else str(mapped))
