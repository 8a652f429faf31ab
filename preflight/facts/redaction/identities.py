"""Names and addresses that identify a cluster, and that pseudonyms replace. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface
from itertools import chain
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
    """Known names and addresses. `names`: every name of a host of the inventory → its pseudonym.

    `others`: names of other machines. `domains`: the ends of such names. `users`: accounts of people. All of them are
    in lower case. `macs`: as 12 hexadecimal digits.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    macs: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()


_NAME = re.compile(r"[A-Za-z0-9](?:[\w-]{0,62}\.?){1,8}")
# Names that identify no machine, by their first label.
_GENERIC = re.compile(r"localhost\d?|ip6-.*|broadcasthost|localdomain\d?")


def known(cluster: Cluster, facts: Mapping[str, HostFacts], documents: Iterable[Any] = ()) -> Known:
    """Return the names and addresses of the inventory and of its hosts' facts.

    `documents`: raw answers of the hosts, and the inventory, as JSON values. They are searched for names that are only
    in a comment, a variable or a URL.
    """
    names = _names(cluster, facts)
    unlisted = search(documents)
    entries = [entry for host in facts.values() for entry in _hosts_file(host)]
    machines = {name for _, aliases in entries for name in aliases} | set(_machines(cluster, facts)) | set(names)
    short_names = {name.partition(".")[0] for name in machines}
    texts = [
        *_planned(cluster),
        *(address for address, _ in entries),
        *chain.from_iterable(map(_texts_of, facts.values())),
    ]
    return Known(
        names,
        others=frozenset(filter(_is_machine, (machines | short_names | unlisted.machines) - set(names))),
        domains=_domains_of(names, machines, unlisted.full_names, facts),
        addresses=frozenset(filter(None, map(_address, texts))),
        macs=frozenset(filter(None, map(_mac, texts))),
        users=frozenset((unlisted.users | set(_users(cluster))) - USERS - set(names)),
    )


def _is_machine(name: str) -> bool:
    return not _GENERIC.fullmatch(name.partition(".")[0])


def _domains_of(
    names: Iterable[str], machines: Iterable[str], full_names: Iterable[str], facts: Mapping[str, HostFacts]
) -> frozenset[str]:
    """Return the domains of the hosts' `names`, and the domains of other names that are not public."""
    own_domains = set(chain.from_iterable(map(_domains, names))) | set(_searched(facts))
    foreign_domains = set(chain.from_iterable(map(_domains, machines)))
    foreign_domains.update(domain for name in full_names for domain in (*_domains(name), *_bare(name)))
    return frozenset(own_domains | (foreign_domains - DOMAINS)) - SUFFIXES - {"cluster.local", "svc.cluster.local"}


def _planned(cluster: Cluster) -> Iterator[str]:
    """Yield the addresses that the inventory has."""
    for host in cluster.hosts:
        yield host.address
        for device in host.devices:
            yield from map(str, (device.address, device.gateway, device.detect))


def _users(cluster: Cluster) -> Iterator[str]:
    """Yield the accounts that the inventory names, in lower case."""
    bastions = (host.ssh.bastion for host in cluster.hosts if host.ssh.bastion)
    users = [cluster.probe.user, *(host.ssh.user for host in cluster.hosts), *(bastion.user for bastion in bastions)]
    yield from (user.lower() for user in users if user)


def _machines(cluster: Cluster, facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """Yield names of machines besides the cluster's hosts, in lower case: bastions, switches, full names."""
    for host in cluster.hosts:
        if host.ssh.bastion and not _address(host.ssh.bastion.host):
            yield host.ssh.bastion.host.lower()
    for name in chain.from_iterable(map(_reported_names, facts.values())):
        if isinstance(name, str) and _NAME.fullmatch(name):
            yield name.lower()


def _reported_names(facts: HostFacts) -> Iterator[object]:
    """Yield the host's full name, and the leaf switches that its devices see."""
    if isinstance(facts.naming, Naming) and facts.naming.full_name:
        yield facts.naming.full_name.name
    if isinstance(facts.hccn, Hccn):
        yield from (device.leaf.value for device in facts.hccn.devices)


def _searched(facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """Yield the domains of the hosts' DNS search lists, and their parents."""
    for host in facts.values():
        for name in host.naming.search if isinstance(host.naming, Naming) else ():
            domain = name.lower().strip(".")
            if "." in domain or domain not in COMMON:
                yield domain
                yield from _domains(domain)


def _names(cluster: Cluster, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """Return every name of a host → its pseudonym, numbered in the inventory's order."""
    names: dict[str, str] = {}
    width = len(str(len(cluster.hosts)))
    for number, host in enumerate(cluster.hosts, 1):
        host_facts = facts.get(host.name)
        hostname = host_facts.os.hostname if host_facts and isinstance(host_facts.os, Os) else ""
        for alias in (host.name, hostname, host.address):
            if alias and not _address(alias) and not _GENERIC.fullmatch(alias.partition(".")[0].lower()):
                for name in (alias, alias.partition(".")[0]):
                    names.setdefault(name.lower(), f"host{number:0{width}}")
    return names


def _hosts_file(facts: HostFacts) -> Iterator[tuple[str, list[str]]]:
    """Yield (address, names in lower case) of the host's /etc/hosts, if collected. Commented lines count, too."""
    text = facts.environment.hosts if isinstance(facts.environment, Environment) else None
    for line in (text or "").splitlines():
        address, *names = line.lstrip("# \t").partition("#")[0].split() or [""]
        if _address(address):
            yield address, [name.lower() for name in names if _NAME.fullmatch(name)]


def _bare(name: str) -> Iterator[str]:
    """Yield the name if it is a domain itself: example.com, example.com.cn."""
    if not set(_domains(name)) - SUFFIXES:
        yield name


def _domains(name: str) -> Iterator[str]:
    """Yield the parents of a name: dc.example.com and example.com of a.dc.example.com."""
    labels = name.split(".")
    for start in range(1, len(labels) - 1):
        yield ".".join(labels[start:])


def _texts_of(facts: HostFacts) -> Iterator[str]:
    """Yield every text of the sections with addresses."""
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
    """Return the address without the length of its prefix; empty if the text is no address."""
    try:
        return str(ip_interface(text).ip) if "/" in text else str(ip_address(text))
    except ValueError:
        return ""


def _mac(text: str) -> str:
    """Return the last 12 digits of a MAC address, which has 20 bytes on InfiniBand; empty if the text is none."""
    digits = text.replace(":", "").lower()
    is_mac = re.fullmatch(r"[0-9a-f]{12,40}", digits) and text.count(":") == len(digits) // 2 - 1
    return digits[-12:] if is_mac and int(digits, 16) else ""
