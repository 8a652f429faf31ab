"""Gates: places that a new connection has to pass on a host, and our rules for them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address

from preflight.facts.sections.firewall import Arrival
from preflight.model.change import Kind
from preflight.model.ports import PortSet
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.rules import FirewallRule, RuleJudgement, Source, judge_all


@dataclass(frozen=True)
class Gate:
    """One place that every packet of its networks has to pass. The next gate may still drop what this one accepts."""

    inputs: GateInputs
    kind: Kind  # Kind of the change that edits our rules here.
    target: str  # Target of that change.
    name: str  # Name in messages.
    rules: tuple[FirewallRule, ...]
    policy: str
    ours: tuple[FirewallRule, ...]
    needed: tuple[FirewallRule, ...]  # Our rules if any are needed, for the cluster and the login in use.
    networks: tuple[Source, ...]  # Sources of the cluster's connections.
    manual_commands: tuple[str, ...] = ()  # Commands to run manually, where preflight does not write.
    to_name: str = ""  # The inventory key to set first, where each host would be a rule.

    @property
    def ports(self) -> PortSet:
        """The ports that the gate has to let through."""
        return self.inputs.ports

    @cached_property
    def logins(self) -> tuple[FirewallRule, ...]:
        """Those of our rules that let one address log in. Only a rollback removes them."""
        return self.inputs.logins(self.ours)

    def objections(self, *, without_ours: bool = False) -> list[tuple[Source, RuleJudgement]]:
        """Return the networks that this gate may keep out, as it is or as it would be without our rules.

        A rule that cannot be judged is no objection if connections from that network were let through."""
        unchanged = not (without_ours and self.ours)
        rules = self.without_ours if without_ours else self.rules
        return [
            (network, judgement)
            for network, judgement in judge_all(rules, self.policy, self.networks, self.ports)
            if judgement.objects and not (unchanged and judgement.unsure and self._let_in(network, judgement.objects))
        ]

    def _let_in(self, network: Source, ports: PortSet) -> bool:
        """Return whether connections from the network were let through on each range of the ports, and none died."""
        may_be_rejected = self._may_reject
        open_ports = {
            arrival.port
            for arrival in self.tried(network, ports)
            if arrival.came_through and not (may_be_rejected and arrival.outcome == "refused")
        }
        covered = (any(low <= port <= high for port in open_ports if port) for low, high in ports.ranges)
        return not self.seen_dying(network, ports) and all(covered)

    @property
    def _may_reject(self) -> bool:
        """True if "Connection refused" can come from a rule that cannot be judged."""
        return any(rule.partial and "reject" in rule.text.lower() for rule in self.rules)

    def tried(self, network: Source, ports: PortSet) -> list[Arrival]:
        """Return the connections from a network to any of these ports."""
        return [
            arrival
            for arrival in self.inputs.tries
            if arrival.port is not None
            and arrival.port in ports
            and arrival.client
            and ip_address(arrival.client) in network
        ]

    def seen_dying(self, network: Source, ports: PortSet) -> bool:
        """Return whether any connection from the network died."""
        return any(arrival.died for arrival in self.tried(network, ports))

    @property
    def written_here(self) -> bool:
        """True if preflight writes here: not where another program keeps the rules, nor one rule a peer."""
        return not self.manual_commands and not self.to_name

    @property
    def without_ours(self) -> tuple[FirewallRule, ...]:
        return tuple(rule for rule in self.rules if rule.text not in {own.text for own in self.ours})

    @property
    def wanted(self) -> tuple[FirewallRule, ...]:
        """The rules that we should have here: all needed ones if any is needed, else those that do no harm; and the
        logins."""
        if self.objections(without_ours=True):
            return together(self.needed, self.logins)
        wanted = meanings((*self.needed, *self.logins))
        return tuple(rule for rule in self.ours if rule.meaning in wanted)

    @property
    def settled(self) -> bool:
        """True if our rules already equal the wanted ones."""
        return meanings(self.ours) == meanings(self.wanted)


def meanings(rules: Iterable[FirewallRule]) -> set[object]:
    return {rule.meaning for rule in rules}


def together(rules: Iterable[FirewallRule], others: Iterable[FirewallRule]) -> tuple[FirewallRule, ...]:
    """Return all rules of both, each meaning once."""
    by_meaning: dict[object, FirewallRule] = {}
    for rule in (*rules, *others):
        by_meaning.setdefault(rule.meaning, rule)
    return tuple(by_meaning.values())
