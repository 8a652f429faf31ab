"""What jobs find by names beside those of the cluster: section `naming` of the facts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from preflight.model.cluster import Host
from preflight.model.ip import is_address

_ASKED = 2  # addresses whose names are looked up


@dataclass(frozen=True)
class FullName:
    """`name`: what socket.getfqdn() says; `peers`: the names of other hosts in its domain → their addresses here."""

    name: str
    peers: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Naming:
    """None: the look-up was not over within `seconds`."""

    localhost: tuple[str, ...] | None  # its addresses
    full_name: FullName | None
    reverse: dict[str, float | None]  # address of another host → seconds until its name, or that it has none, was known
    endpoints: dict[str, bool | None]  # name or address of the first host → whether torchrun takes it for this one
    seconds: float
    search: tuple[str, ...] = ()  # domains that the resolver appends to names: the last `search` of /etc/resolv.conf


@dataclass
class RawFullName:
    name: str
    peers: list[tuple[str, list[str]]]


@dataclass
class RawNaming:
    localhost: list[str] | None
    full_name: RawFullName | None
    reverse: list[tuple[str, float | None]]
    endpoints: list[tuple[str, bool | None]]
    seconds: float
    search: list[str] = field(default_factory=list)


def naming(raw: RawNaming) -> Naming:
    full = raw.full_name
    return Naming(
        localhost=None if raw.localhost is None else tuple(raw.localhost),
        full_name=FullName(full.name, {peer: tuple(addresses) for peer, addresses in full.peers}) if full else None,
        reverse=dict(raw.reverse),
        endpoints=dict(raw.endpoints),
        seconds=raw.seconds,
        search=tuple(raw.search),
    )


def wanted(hosts: Sequence[Host], name: str) -> dict[str, list[str]]:
    """What one host is to look up: the first host's names, and those of its neighbours in the list."""
    at = next(index for index, host in enumerate(hosts) if host.name == name)
    near = [hosts[index] for index in dict.fromkeys((0, at - 1, (at + 1) % len(hosts)))]
    peers = list({host.name: host for host in near if host.name != name}.values())
    first = hosts[0]
    return {
        "peers": [host.name for host in peers],
        "addresses": [host.address for host in peers if is_address(host.address)][:_ASKED],
        "endpoints": list(dict.fromkeys((first.name, first.address))),
    }
