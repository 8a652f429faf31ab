"""Every name and address by which somebody could tell whose cluster this is: what pseudonyms must not leave. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface
from typing import Any

import msgspec

from preflight.facts.redaction.public_names import COMMON, DOMAINS, SUFFIXES, USERS
from preflight.facts.redaction.unlisted_names import search
from preflight.facts.sections.environment import Environment
from preflight.facts.sections.naming import Naming
from preflight.facts.sections.nic import Nic
from preflight.facts.types import Hccn, HostFacts, Names, Network, Os
from preflight.model.cluster import Cluster


@dataclass(frozen=True)
class Known:
    """`names`: each that a host of the inventory is known by, in lower case → its pseudonym. `others`: names of other
    machines, `domains`: what such names end in, `users`: of people, in lower case. `macs`: as 12 hexadecimal digits."""

    names: Mapping[str, str] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    macs: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()


_NAME = re.compile(r"[A-Za-z0-9](?:[\w-]{0,62}\.?){1,8}")
_EVERYBODY_S = re.compile(
    r"localhost\d?|ip6-.*|broadcasthost|localdomain\d?"
)  # names of no machine, by their first label


def known(cluster: Cluster, facts: Mapping[str, HostFacts], documents: Iterable[Any] = ()) -> Known:
    """Return what the inventory and the facts of its hosts name. `documents`: what the hosts sent, and the inventory,
    as JSON values; names that stand only in a comment, a variable or a URL are known from these."""
    names = _names(cluster, facts)
    found = search(documents)
    listed = [entry for its in facts.values() for entry in _hosts_file(its)]
    told = {name for _, aliases in listed for name in aliases} | set(_machines(cluster, facts)) | set(names)
    others = {part for name in told for part in (name, name.partition(".")[0])} | found.machines
    own = {domain for name in names for domain in _domains(name)} | set(_searched(facts))
    foreign = {domain for name in told for domain in _domains(name)}
    foreign |= {domain for name in found.full_names for domain in (*_domains(name), *_bare(name))}
    planned = (str(part) for host in cluster.hosts for device in host.devices
               for part in (device.address, device.gateway, device.detect))  # fmt: skip
    addresses = [*(host.address for host in cluster.hosts), *planned, *(address for address, _ in listed),
                 *(text for its in facts.values() for text in _told(its))]  # fmt: skip
    return Known(
        names,
        frozenset(name for name in others - set(names) if not _EVERYBODY_S.fullmatch(name.partition(".")[0])),
        frozenset(own | (foreign - DOMAINS)) - SUFFIXES - {"cluster.local", "svc.cluster.local"},
        frozenset(address for text in addresses if (address := _address(text))),
        frozenset(mac for text in addresses if (mac := _mac(text))),
        frozenset((found.users | set(_users(cluster))) - USERS - set(names)),
    )


def _users(cluster: Cluster) -> Iterator[str]:
    """Accounts that the inventory names, in lower case."""
    bastions = (host.ssh.bastion for host in cluster.hosts if host.ssh.bastion)
    users = [cluster.probe.user, *(host.ssh.user for host in cluster.hosts), *(bastion.user for bastion in bastions)]
    yield from (user.lower() for user in users if user)


def _machines(cluster: Cluster, facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """Machines beside the cluster's hosts, in lower case: what hosts are reached through, switches, full names."""
    for host in cluster.hosts:
        if host.ssh.bastion and not _address(host.ssh.bastion.host):
            yield host.ssh.bastion.host.lower()
    for its in facts.values():
        if isinstance(its.naming, Naming) and its.naming.full_name and _NAME.fullmatch(its.naming.full_name.name):
            yield its.naming.full_name.name.lower()
        for device in its.hccn.devices if isinstance(its.hccn, Hccn) else ():
            if isinstance(device.leaf.value, str) and _NAME.fullmatch(device.leaf.value):
                yield device.leaf.value.lower()


def _searched(facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """Domains of the hosts' DNS search lists, and what they are in."""
    for its in facts.values():
        for name in its.naming.search if isinstance(its.naming, Naming) else ():
            domain = name.lower().strip(".")
            if "." in domain or domain not in COMMON:
                yield domain
                yield from _domains(domain)


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
    """(address, names in lower case) of its /etc/hosts, as far as that was collected; also of lines that are switched
    off by a comment sign."""
    text = facts.environment.hosts if isinstance(facts.environment, Environment) else None
    for line in (text or "").splitlines():
        address, *names = line.lstrip("# \t").partition("#")[0].split() or [""]
        if _address(address):
            yield address, [name.lower() for name in names if _NAME.fullmatch(name)]


def _bare(name: str) -> Iterator[str]:
    """Yield the name where it is a domain itself: example.com, example.com.cn."""
    if not set(_domains(name)) - SUFFIXES:
        yield name


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
