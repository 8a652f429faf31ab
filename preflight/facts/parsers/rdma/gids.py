"""GIDs of RoCE ports, by the index that NCCL_IB_GID_INDEX names, and `show_gids` (mlnx-tools) that prints them."""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Literal

from preflight.facts.parsers.rdma.port import DEVICE, Reader, whole_lines
from preflight.facts.quote import quote
from preflight.facts.reading import Missing

_NUMBER = re.compile(r"[0-9]{1,5}", re.ASCII)
_NAME = re.compile(r"[\w.@:-]{1,40}", re.ASCII)
_COUNT = re.compile(r"n_gids_found=([0-9]{1,6})", re.ASCII)
MOST = 10_000


@dataclass(frozen=True)
class Gid:
    """`address`: the IPv4 address that the GID stands for; None: it is no mapped one. `kind`: of its packets; only
    RoCE v2 is routed. `netdev`: None where the port has none (InfiniBand)."""

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
    """`show_gids`: a row a GID; the last line counts them."""
    reader = Reader("show_gids", {})
    found: list[Gid] = []
    headed = False
    for line in whole_lines(text, reader):
        words = line.split()
        if words[:3] == ["DEV", "PORT", "INDEX"]:
            headed = True
        elif match := _COUNT.fullmatch(line):
            headed = True
            if int(match.group(1)) != len(found):
                reader.note(f"{match.group(1)} GIDs are counted and {len(found)} understood: lines are missing")
        elif set(line) <= set("- \t"):
            continue
        elif (gid := _gid(words)) and len(found) < MOST:
            found.append(gid)
        else:
            reader.note(f"{quote(line)} is not understood")
    if not found and not (headed and not reader.unread):
        return reader.unread[0] if headed else Missing(f"show_gids said {quote(text[:100_000])}")
    if len({(gid.device, gid.port, gid.index) for gid in found}) < len(found):
        return Missing("show_gids lists a GID twice: the answers of several hosts or calls are mixed")
    return Gids(tuple(found), tuple(reader.unread))


def _gid(words: list[str]) -> Gid | None:
    """DEV PORT INDEX GID [IPv4] VER [DEV]"""
    at = next((at for at, word in enumerate(words) if word in ("v1", "v2")), 0)
    if at not in (4, 5) or len(words) > at + 2:
        return None
    device, port, index, gid = words[:4]
    if not (DEVICE.fullmatch(device) and _NUMBER.fullmatch(port) and _NUMBER.fullmatch(index)):
        return None
    kind: Literal["v1", "v2"] = "v1" if words[at] == "v1" else "v2"
    found = made(device, int(port), int(index), gid, kind, words[at + 1] if len(words) > at + 1 else None)
    return found if found and found.address == (words[4] if at == 5 else None) else None


def made(device: str, port: int, index: int, gid: str, kind: Literal["v1", "v2"], netdev: str | None) -> Gid | None:
    """None: `gid` is no GID or `netdev` no name of an interface."""
    try:
        mapped = IPv6Address(gid).ipv4_mapped
    except AddressValueError:
        return None
    if "%" in gid or (netdev is not None and not _NAME.fullmatch(netdev)):
        return None
    return Gid(device, port, index, gid, None if mapped is None else str(mapped), kind, netdev)
