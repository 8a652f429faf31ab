"""Output of `ip [-j] address` and `ip [-j] route`: JSON from iproute2 4.14 on, text before."""

import re
from dataclasses import dataclass, field

import msgspec

from preflight.facts.decode import decode
from preflight.facts.documents.refused_document import json_error
from preflight.facts.types import Interface, Missing, Route
from preflight.model.text import quote


@dataclass
class _JsonAddress:
    local: str = ""
    prefixlen: int = 0


@dataclass
class _JsonLink:
    ifname: str = ""
    flags: list[str] = field(default_factory=list)
    mtu: int = 0
    address: str = ""
    addr_info: list[_JsonAddress] = field(default_factory=list)


@dataclass
class _JsonRoute:
    dst: str = ""
    gateway: str | None = None
    dev: str = ""


def address(text: str) -> tuple[Interface, ...] | Missing:
    """Return the interfaces with their addresses. `up` means switched on and with a carrier."""
    return _address_json(text) if text.lstrip().startswith("[") else _address_text(text)


def route(text: str) -> tuple[Route, ...] | Missing:
    """Return the routes of the main table; those without an interface (blackhole, multipath) are passed over."""
    return _route_json(text) if text.lstrip().startswith("[") else _route_text(text)


def _address_json(text: str) -> tuple[Interface, ...] | Missing:
    try:
        links = decode(text, list[_JsonLink])
    except (msgspec.MsgspecError, RecursionError) as error:
        return Missing(f"ip -j address: {json_error(error, text)}")
    return tuple(
        Interface(
            name=link.ifname,
            up={"UP", "LOWER_UP"} <= set(link.flags),
            mtu=link.mtu,
            mac=link.address,
            addresses=tuple(f"{entry.local}/{entry.prefixlen}" for entry in link.addr_info if entry.local),
        )
        for link in links
        if link.ifname  # iproute2 before 5.0 prints empty objects for interfaces that a filter left out
    )


def _route_json(text: str) -> tuple[Route, ...] | Missing:
    try:
        routes = decode(text, list[_JsonRoute])
    except (msgspec.MsgspecError, RecursionError) as error:
        return Missing(f"ip -j route: {json_error(error, text)}")
    return tuple(Route(route.dst, route.gateway, route.dev) for route in routes if route.dst and route.dev)


_LINK = re.compile(r"\d{1,9}: ([^\s:@]{1,15})(?:@\S{1,40})?: <([A-Z0-9_,-]*)> mtu (\d{1,9})\b.*")
_MAC = re.compile(r"link/\S{1,20} ([0-9a-f:]{17})\b.*")
_INET = re.compile(r"inet6? ([0-9a-fA-F.:]{2,45}(?:/\d{1,3})?)\b.*")


def _address_text(text: str) -> tuple[Interface, ...] | Missing:
    interfaces: list[Interface] = []
    for line in text.splitlines():
        if match := _LINK.fullmatch(line):
            up = {"UP", "LOWER_UP"} <= set(match.group(2).split(","))
            interfaces.append(Interface(match.group(1), up, int(match.group(3)), "", ()))
        elif not interfaces:
            return Missing(f"ip address printed {quote(text)}")
        elif match := _MAC.fullmatch(line.strip()):
            interfaces[-1] = Interface(interfaces[-1].name, interfaces[-1].up, interfaces[-1].mtu, match.group(1), ())
        elif match := _INET.fullmatch(line.strip()):
            last, address = interfaces[-1], match.group(1)
            addresses = (
                *last.addresses,
                address if "/" in address else address + ("/128" if ":" in address else "/32"),
            )
            interfaces[-1] = Interface(last.name, last.up, last.mtu, last.mac, addresses)
    return tuple(interfaces) or Missing("ip address printed nothing")


_ROUTE = re.compile(r"(default|[0-9.]{7,15}(?:/\d{1,2})?)(?: via ([0-9.]{7,15}))?(?: dev (\S{1,15}))?(?: .*)?")
_ODD_ROUTE = re.compile(r"(?:blackhole|unreachable|prohibit|throw|broadcast|local|nexthop)\b.*")


def _route_text(text: str) -> tuple[Route, ...] | Missing:
    routes = []
    for line in text.splitlines():
        if not line.strip() or _ODD_ROUTE.fullmatch(line.strip()):
            continue
        match = _ROUTE.fullmatch(line.strip())
        if not match:
            return Missing(f"ip route: {quote(line)} is not recognized")
        if match.group(3):
            routes.append(Route(match.group(1), match.group(2), match.group(3)))
    return tuple(routes)
