"""The lists of rules that a new connection from the cluster has to pass on a host, and what they do to it. Pure."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Network

from preflight.checks.rules import Judgement, Rule, judge, nft_rule, parse_rule, parse_ufw, ufw_rules
from preflight.facts.firewall import Firewall, NftChain
from preflight.facts.types import Sysctl
from preflight.model.change import Kind
from preflight.model.cluster import Cluster
from preflight.model.ports import PortSet


@dataclass(frozen=True)
class Gate:
    """A base chain of nftables with hook input, or ufw as a whole. A packet has to pass every gate of its host: what
    one chain accepts, the next one may still drop."""

    kind: Kind  # NFT_RULES or UFW_RULES
    target: str  # of a change of that kind
    rules: tuple[Rule, ...]
    policy: str
    ours: tuple[str, ...]
    networks: tuple[IPv4Network, ...]  # where the cluster's connections come from
    ports: PortSet  # what has to come through
    by_hand: str = ""  # the command where preflight does not write: another program owns the chain

    @property
    def wanted(self) -> tuple[str, ...]:
        """Our rules as they should be, one a network, in order."""
        if self.kind is Kind.UFW_RULES:
            return tuple(rule for network in self.networks for rule in ufw_rules(network, self.ports))
        return tuple(nft_rule(network, self.ports) for network in self.networks)

    def objections(self, *, without_ours: bool = False) -> list[tuple[IPv4Network, Judgement]]:
        """The networks that this gate does not surely let through, as it is or as it would be without our rules."""
        rules = [rule for rule in self.rules if not (without_ours and rule.text in self.ours)]
        judged = [(network, judge(rules, self.policy, network, self.ports)) for network in self.networks]
        return [(network, seen) for network, seen in judged if seen.closed or seen.doubtful]

    def target_rules(self) -> tuple[str, ...]:
        """What our rules here should become: all that are wanted if any is needed, else those that do no harm."""
        if self.objections(without_ours=True):
            return self.wanted
        return tuple(rule for rule in self.ours if rule in self.wanted)


def sources(cluster: Cluster) -> tuple[IPv4Network, ...]:
    """Where the cluster's connections come from: its CIDRs, or else its hosts one by one; empty where the inventory
    does not say, because it has only a name for a host."""
    if cluster.cidrs:
        return cluster.cidrs
    addresses = [host.address for host in cluster.hosts]
    return tuple(map(IPv4Network, addresses)) if all(re.fullmatch(r"[\d.]+", text) for text in addresses) else ()


def needed_ports(cluster: Cluster, sysctl: Sysctl) -> PortSet:
    """The job's ports; and the ephemeral ones where gloo and NCCL listen, which is everywhere but on NPUs: HCCL listens
    on a range of its own, unless HCCL_HOST_SOCKET_PORT_RANGE is "auto"."""
    automatic = not cluster.product.is_npu or cluster.hccl_host_range == "auto"
    return cluster.ports | PortSet.of([sysctl.local_port_range]) if automatic else cluster.ports


def is_iptables(chain: NftChain) -> bool:
    """Whether iptables-nft keeps this chain; it would not list it any more once nft has written there."""
    return (chain.family, chain.table, chain.name) == ("ip", "filter", "INPUT")


def iptables_command(network: IPv4Network | str, ports: PortSet) -> str:
    """What lets the ports through in iptables, to be typed by a person."""
    dports = str(ports).replace("-", ":")
    return f"iptables -I INPUT -s {network} -p tcp -m multiport --dports {dports} -j ACCEPT"


def gates(cluster: Cluster, firewall: Firewall, sysctl: Sysctl) -> list[Gate]:
    """All gates of a host. ufw's own chain is not one beside ufw, but tells ufw's default; chains for other families
    see no IPv4."""
    networks, ports = sources(cluster), needed_ports(cluster, sysctl)
    found = []
    if firewall.ufw_enabled:
        rules = tuple(parse_ufw(text) for text in firewall.ufw_rules)
        policy = next((chain.policy for chain in firewall.nft_chains if is_iptables(chain)), "drop")
        found.append(Gate(Kind.UFW_RULES, "ufw", rules, policy, firewall.ufw_ours, networks, ports))
    for chain in firewall.nft_chains:
        if chain.family not in ("ip", "inet") or (firewall.ufw_enabled and is_iptables(chain)):
            continue
        by_hand = iptables_command(networks[0] if networks else "CIDR", ports) if is_iptables(chain) else ""
        rules = tuple(parse_rule(text) for text in chain.rules)
        target = f"{chain.family} {chain.table} {chain.name}"
        found.append(Gate(Kind.NFT_RULES, target, rules, chain.policy, chain.ours, networks, ports, by_hand))
    return found
