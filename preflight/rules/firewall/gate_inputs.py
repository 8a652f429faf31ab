"""Inputs of the gates of a host: the cluster's networks and ports, and the host's facts. Pure."""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network

from preflight.facts.sections.firewall import Arrival, Firewall
from preflight.facts.types import Network, Sysctl
from preflight.grouping import grouped
from preflight.model.cluster import Cluster, Host
from preflight.model.ports import PortSet
from preflight.rules.firewall.rules import FirewallRule, Source, judge, within

MOST_NETWORKS = 16  # Networks of the inventory, each a rule. ufw and firewalld take 0.1 s for a rule.
FEW_NETWORKS = 4  # Networks of neighbouring hosts, where the inventory names no networks.
_SITES = ({4: 24, 6: 64}, {4: 16, 6: 48})  # Usual prefixes of hosts' networks, the narrower first.


@dataclass(frozen=True)
class GateInputs:
    """The cluster and the facts of one host, from which its gates are made."""

    cluster: Cluster
    host: Host
    firewall: Firewall
    network: Network
    sysctl: Sysctl
    tries: tuple[Arrival, ...] = ()

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        return sources(self.cluster)

    @cached_property
    def ports(self) -> PortSet:
        return needed_ports(self.cluster, self.sysctl)

    def of_family(self, *versions: int) -> tuple[Source, ...]:
        return tuple(network for network in self.sources if network.version in versions)

    def fewest(self, *versions: int) -> tuple[Source, ...]:
        """Return the fewest networks that hold exactly these sources, for tools that take one rule a network."""
        if self.cluster.cidrs:
            return self.of_family(*versions)
        fours = [network for network in self.of_family(*versions) if isinstance(network, IPv4Network)]
        sixes = [network for network in self.of_family(*versions) if isinstance(network, IPv6Network)]
        return (*collapse_addresses(fours), *collapse_addresses(sixes))

    def to_name(self, *versions: int) -> str:
        """Return the inventory key to set before a tool without sets is written; empty if it may be written.

        There is never one rule a peer. Hosts are let in only by networks of several hosts that hold no other
        machine."""
        networks, has_cidrs = self.fewest(*versions), bool(self.cluster.cidrs)
        if has_cidrs and len(networks) <= MOST_NETWORKS:
            return ""
        if not has_cidrs and len(networks) <= FEW_NETWORKS and all(network.num_addresses > 1 for network in networks):
            return ""
        return f"cidrs = {json.dumps([str(network) for network in smallest_around(self.fewest(4, 6))])}"

    def rules_for(self, networks: Iterable[Source], ours: Callable[[Source, PortSet], list[str]]) -> list[str]:
        """Return our rules for each of these networks, as `ours` of a dialect words them."""
        return [rule for network in networks for rule in ours(network, self.ports)]

    def login(
        self, rules: Iterable[FirewallRule], ours: Collection[FirewallRule], policy: str, *versions: int
    ) -> tuple[Source, PortSet] | None:
        """Return the login in use, if the rules other than ours would surely shut it out."""
        login = self.firewall.login
        if login is None or ip_address(login.client).version not in versions:
            return None
        source, port = ip_network(login.client), PortSet(((login.port, login.port),))
        site_rules = [rule for rule in rules if rule not in ours]
        return (source, port) if judge(site_rules, policy, source, port).closed else None

    def logins(self, ours: Iterable[FirewallRule]) -> tuple[FirewallRule, ...]:
        """Return those of our rules that let one address log in.

        They stay in every run. Other users at that address, and the rules that would shut them out, are not visible
        from here."""
        ports = (22, self.host.ssh.port or 22, self.firewall.login.port if self.firewall.login else 22)
        login_ports = {PortSet(((port, port),)) for port in ports}
        return tuple(rule for rule in ours if rule.of_one_address and rule.ports in login_ports)


def sources(cluster: Cluster) -> tuple[Source, ...]:
    """Return the sources of the cluster's connections: its CIDRs, or else the addresses of its hosts.

    Empty where the inventory has only a name for a host."""
    return cluster.cidrs or _networks(tuple(host.address for host in cluster.hosts))


@lru_cache(4)  # called for each of hundreds of hosts
def _networks(addresses: tuple[str, ...]) -> tuple[Source, ...]:
    try:
        return tuple(map(ip_network, addresses))
    except ValueError:
        return ()


@lru_cache(4)
def smallest_around(networks: tuple[Source, ...]) -> tuple[Source, ...]:
    """Return the smallest network around those of each /24 (IPv6: /64), or, if that makes many, of each /16 (/48).

    A single host counts as its /24, since a network of one host is hardly meant."""
    enclosing: tuple[Source, ...] = ()
    for prefixes in _SITES:
        sites = grouped((_site(network, prefixes[network.version]), network) for network in networks)
        enclosing = tuple(_around(site, members) for site, members in sites.items())
        if len(enclosing) <= FEW_NETWORKS:
            break
    return enclosing


def _site(network: Source, prefix: int) -> Source:
    return network.supernet(new_prefix=min(prefix, network.prefixlen))


def _around(site: Source, members: Sequence[Source]) -> Source:
    around = members[0]
    if len(members) == around.num_addresses == 1:
        return site
    while not all(within(member, around) for member in members):
        around = around.supernet()
    return around


def needed_ports(cluster: Cluster, sysctl: Sysctl) -> PortSet:
    """Return the job's ports, and the ephemeral ones where jobs listen on any port that the kernel gives them."""
    return cluster.ports | PortSet.of([sysctl.local_port_range]) if cluster.listens_anywhere else cluster.ports
