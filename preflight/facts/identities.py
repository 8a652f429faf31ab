"""Every name and address by which somebody could tell whose cluster this is: what pseudonyms must not leave. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface
from typing import Any

import msgspec

from preflight.facts.environment import Environment
from preflight.facts.nic import Nic
from preflight.facts.types import Hccn, HostFacts, Names, Network, Os
from preflight.model.cluster import Cluster


@dataclass(frozen=True)
class Known:
    """`names`: each that a host of the inventory is known by, in lower case → its pseudonym. `others`: names of other
    machines, `domains`: what such names end in, in lower case. `macs`: as 12 hexadecimal digits."""

    names: Mapping[str, str] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    macs: frozenset[str] = frozenset()


_NAME = re.compile(r"[A-Za-z0-9](?:[\w-]{0,62}\.?){1,8}")
_EVERYBODY_S = re.compile(
    r"localhost\d?|ip6-.*|broadcasthost|localdomain\d?"
)  # names of no machine, by their first label


def known(cluster: Cluster, facts: Mapping[str, HostFacts]) -> Known:
    """From the inventory, and from what its hosts say of themselves and others."""
    names = _names(cluster, facts)
    listed = [entry for its in facts.values() for entry in _hosts_file(its)]
    told = {name for _, aliases in listed for name in aliases} | set(names)
    others = {part for name in told for part in (name, name.partition(".")[0])} - set(names)
    planned = (str(part) for host in cluster.hosts for device in host.devices
               for part in (device.address, device.gateway, device.detect))  # fmt: skip
    found = [*(host.address for host in cluster.hosts), *planned, *(address for address, _ in listed),
             *(text for its in facts.values() for text in _told(its))]  # fmt: skip
    return Known(
        names,
        frozenset(name for name in others if not _EVERYBODY_S.fullmatch(name.partition(".")[0])),
        frozenset(domain for name in told for domain in _domains(name)),
        frozenset(address for text in found if (address := _address(text))),
        frozenset(mac for text in found if (mac := _mac(text))),
    )


def _names(cluster: Cluster, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """As the inventory, the host itself and their users have it; numbered in the inventory's order."""
    names: dict[str, str] = {}
    width = len(str(len(cluster.hosts)))
    for number, host in enumerate(cluster.hosts, 1):
        its = facts.get(host.name)
        own = its.os.hostname if its and isinstance(its.os, Os) else ""
        for alias in (host.name, own, host.address):
            if alias and not _address(alias) and not _EVERYBODY_S.fullmatch(alias.partition(".")[0].lower()):
                for name in (alias, alias.partition(".")[0]):
                    names.setdefault(name.lower(), f"host{number:0{width}}")
    return names


def _hosts_file(facts: HostFacts) -> Iterator[tuple[str, list[str]]]:
    """(address, names in lower case) of its /etc/hosts, as far as that was looked at."""
    text = facts.environment.hosts if isinstance(facts.environment, Environment) else None
    for line in (text or "").splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if _address(address):
            yield address, [name.lower() for name in names if _NAME.fullmatch(name)]


def _domains(name: str) -> Iterator[str]:
    """Of a.dc.example.com: dc.example.com and example.com."""
    labels = name.split(".")
    for at in range(1, len(labels) - 1):
        yield ".".join(labels[at:])


def _told(facts: HostFacts) -> Iterator[str]:
    """What may be an address in the sections that are about addresses."""
    for section, type_ in ((facts.network, Network), (facts.names, Names), (facts.hccn, Hccn), (facts.nic, Nic)):
        if isinstance(section, type_):
            yield from _texts(msgspec.to_builtins(section))


def _texts(value: Any) -> Iterator[str]:
    parts: Iterable[Any] = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    )
    if isinstance(value, str):
        yield value
    for part in parts:
        yield from _texts(part)


def _address(text: str) -> str:
    """The address, without the length of its prefix; empty where the text is none."""
    try:
        return str(ip_interface(text).ip) if "/" in text else str(ip_address(text))
    except ValueError:
        return ""


def _mac(text: str) -> str:
    """The last 12 digits of a MAC address; InfiniBand's has 20 bytes. Empty where the text is none."""
    digits = text.replace(":", "").lower()
    right = re.fullmatch(r"[0-9a-f]{12,40}", digits) and text.count(":") == len(digits) // 2 - 1
    return digits[-12:] if right and int(digits, 16) else ""
