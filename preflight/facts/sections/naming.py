"""Resolution of names that jobs use besides those of the cluster: section `naming` of the facts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from preflight.model.cluster import Host
from preflight.model.ip import is_address

_ASKED = 2  # addresses for which names are looked up


@dataclass(frozen=True)
class FullName:
    """The host's full name. `name`: result of socket.getfqdn().

    `peers`: names of other hosts in its domain → their addresses on this host.
    """

    name: str
    peers: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Naming:
    """Results of name resolution. None: it did not end within `seconds`."""

    localhost: tuple[str, ...] | None  # its addresses
    full_name: FullName | None
    reverse: dict[str, float | None]  # address of another host → seconds until the answer, with or without a name
    endpoints: dict[str, bool | None]  # name or address of the first host → True if torchrun takes it for this host
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
    full_name = raw.full_name
    return Naming(
        localhost=None if raw.localhost is None else tuple(raw.localhost),
        full_name=(
            FullName(full_name.name, {peer: tuple(addresses) for peer, addresses in full_name.peers})
            if full_name
            else None
        ),
        reverse=dict(raw.reverse),
        endpoints=dict(raw.endpoints),
        seconds=raw.seconds,
        search=tuple(raw.search),
    )


def queries(hosts: Sequence[Host], name: str) -> dict[str, list[str]]:
    """Return the names that one host looks up: those of the first host, and of its neighbours in the list."""
    position = next(index for index, host in enumerate(hosts) if host.name == name)
    nearby = [hosts[index] for index in dict.fromkeys((0, position - 1, (position + 1) % len(hosts)))]
    peers = list({host.name: host for host in nearby if host.name != name}.values())
    first = hosts[0]
    return {
        "peers": [host.name for host in peers],
        "addresses": [host.address for host in peers if is_address(host.address)][:_ASKED],
        "endpoints": list(dict.fromkeys((first.name, first.address))),
    }
