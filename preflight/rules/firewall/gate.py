"""A gate: a place that a new connection has to pass on a host, and our rules for it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from preflight.facts.sections.firewall import Arrival
from preflight.model.change import Kind
from preflight.model.ports import PortSet
from preflight.rules.firewall.rules import FirewallRule, RuleJudgement, Source, judge_all


@dataclass(frozen=True)
class Gate:
    """One place that every packet of its networks has to pass; what one accepts, the next may still drop."""

    kind: Kind  # of a change of our rules here
    target: str  # of that change
    name: str  # for people
    rules: tuple[FirewallRule, ...]
    policy: str
    ours: tuple[FirewallRule, ...]
    needed: tuple[FirewallRule, ...]  # our rules if any are needed: for the cluster, and for the login in use
    networks: tuple[Source, ...]  # where the cluster's connections come from
    ports: PortSet  # what has to come through
    by_hand: str = ""  # what a person types, where preflight does not write
    to_name: str = ""  # what the inventory has to say first, where there would be a rule for each host
    tries: tuple[Arrival, ...] = ()  # connections from other hosts, which passed this gate as it is, or did not
    logins: tuple[
        FirewallRule, ...
    ] = ()  # those of `ours` that let one address log in; only a rollback takes them away

    def objections(self, *, without_ours: bool = False) -> list[tuple[Source, RuleJudgement]]:
        """The networks that this gate does not surely let through, as it is or as it would be without our rules.

        A rule that cannot be judged is no objection where connections from that very network came through."""
        as_it_is = not (without_ours and self.ours)
        rules = self.without_ours if without_ours else self.rules
        return [
            (network, seen)
            for network, seen in judge_all(rules, self.policy, self.networks, self.ports)
            if seen.objects and not (as_it_is and seen.unsure and self._let_in(network, seen.objects))
        ]

    def _let_in(self, network: Source, ports: PortSet) -> bool:
        """Whether connections from the network came through on each range of the ports, and none died."""
        tried = self.tried(network, ports)
        # Where a rule may reject, "nobody listens here" can be the word of that rule.
        rejecting = any(rule.partial and "reject" in rule.text.lower() for rule in self.rules)
        through = {one.port for one in tried if one.came_through and not (rejecting and one.outcome == "refused")}
        reached = (any(low <= port <= high for port in through if port) for low, high in ports.ranges)
        return not self.seen_dying(network, ports) and all(reached)

    def tried(self, network: Source, ports: PortSet) -> list[Arrival]:
        """The connections from a network to some of these ports."""
        return [
            one
            for one in self.tries
            if one.port is not None and one.port in ports and one.client and ip_address(one.client) in network
        ]

    def seen_dying(self, network: Source, ports: PortSet) -> bool:
        """Whether a connection from there was seen to die."""
        return any(one.died for one in self.tried(network, ports))

    @property
    def written_here(self) -> bool:
        """Whether preflight writes here at all: not what another program keeps, and never one rule a peer."""
        return not self.by_hand and not self.to_name

    @property
    def without_ours(self) -> tuple[FirewallRule, ...]:
        return tuple(rule for rule in self.rules if rule.text not in {own.text for own in self.ours})

    @property
    def wanted(self) -> tuple[FirewallRule, ...]:
        """What our rules here should be: all that are needed if any is, else those that do no harm; and the logins."""
        if self.objections(without_ours=True):
            return together(self.needed, self.logins)
        meanings = {rule.meaning for rule in (*self.needed, *self.logins)}
        return tuple(rule for rule in self.ours if rule.meaning in meanings)

    @property
    def settled(self) -> bool:
        """Whether our rules are as they should be."""
        return {rule.meaning for rule in self.ours} == {rule.meaning for rule in self.wanted}


def together(rules: Iterable[FirewallRule], others: Iterable[FirewallRule]) -> tuple[FirewallRule, ...]:
    """All of both, each meaning once."""
    found: dict[object, FirewallRule] = {}
    for rule in (*rules, *others):
        found.setdefault(rule.meaning, rule)
    return tuple(found.values())
