"""The effect of firewall rules on new TCP connections from the cluster's networks, as far as it is known. Pure.

The dialects read the rules of each tool into `FirewallRule`, and only the plain part of each language: addresses,
ports, protocol, interface, connection state, counters, comments. Any other condition makes a rule *partial*: it may or
may not meet a packet of the cluster. So a partial accept opens nothing for certain, and a partial drop leaves a
doubt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network, ip_network

from preflight.model.ports import PortSet

Source = IPv4Network | IPv6Network  # the source of a connection
EVERY_PORT = PortSet(((0, 65535),))


@dataclass(frozen=True)
class FirewallRule:
    """One rule, reduced to its effect on a new TCP connection. None: any source, any port."""

    text: str
    verdict: str  # accept | drop | jump (to an unknown chain) | none (counts or logs only).
    sources: tuple[Source, ...] | None = None
    ports: PortSet | None = None
    partial: bool = False  # The rule has conditions that cannot be judged.
    never: bool = False  # The rule cannot meet a new TCP connection from another host.
    family: int = 0  # 4 or 6 for one family, 0 for both.

    @property
    def meaning(self) -> object:
        """The rule's effect without its wording and order; two of our rules with the same meaning are the same."""
        return self.verdict, frozenset(self.sources or ()), self.ports, self.partial, self.never

    def ports_from(self, source: Source) -> PortSet:
        """Return the ports on which the rule can meet connections from the source."""
        if not self.meets(source) or not overlaps_any(source, self.sources or (source,)):
            return PortSet()
        return self.ports or EVERY_PORT

    def meets(self, source: Source) -> bool:
        """Return whether the rule can meet a connection from the source's family at all."""
        return not self.never and self.verdict != "none" and self.family in (0, source.version)

    def surely_accepts(self, source: Source) -> bool:
        """Return whether the rule accepts all connections from the source to its ports."""
        return self.verdict == "accept" and not self.partial and within_any(source, self.sources or (source,))

    def never_unless(self, possible: bool) -> "FirewallRule":
        """Return the rule, which meets no new TCP connection unless that is possible by one more condition."""
        return replace(self, never=self.never or not possible)

    @property
    def of_one_address(self) -> bool:
        """True if the rule is about a single address."""
        return self.sources is not None and len(self.sources) == 1 and self.sources[0].num_addresses == 1


@dataclass(frozen=True)
class RuleJudgement:
    """The effect of a list of rules on the given ports from one network."""

    closed: PortSet  # Ports that are not let through.
    doubtful: PortSet  # Ports that are let through unless an unjudged rule or an unread chain objects.
    by: str  # The first rule that closes or may close, or "policy drop".
    perhaps: PortSet = field(default_factory=PortSet)  # Closed ports, unless an unjudged rule lets them in first.

    @property
    def objects(self) -> PortSet:
        return self.closed | self.doubtful

    @property
    def unsure(self) -> bool:
        """True if a rule that cannot be judged decides about all objections."""
        return self.closed <= self.perhaps


def judge(rules: Sequence[FirewallRule], policy: str, source: Source, ports: PortSet) -> RuleJudgement:
    """Follow new TCP connections from `source` to `ports` through `rules`, first match wins, then `policy`."""
    undecided, closed, doubtful, maybe_open = ports, PortSet(), PortSet(), PortSet()
    closing: list[str] = []
    doubting: list[str] = []
    last = [FirewallRule("policy drop", "drop")] if policy == "drop" else []
    for rule in [*rules, *last]:
        ports_met = common(undecided, rule.ports_from(source)) if undecided else undecided
        if not ports_met:
            continue
        if rule.surely_accepts(source):
            undecided -= ports_met
        elif rule.verdict == "accept":
            maybe_open |= ports_met
        elif rule.verdict == "drop" and not rule.partial:
            closed, undecided = closed | ports_met, undecided - ports_met
            closing.append(rule.text)
        else:
            doubtful |= ports_met
            doubting.append(rule.text)
    by = next(iter(closing + doubting), "")
    return RuleJudgement(closed, doubtful - closed, by, common(closed, maybe_open | doubtful))


def judge_all(
    rules: Sequence[FirewallRule], policy: str, sources: Sequence[Source], ports: PortSet
) -> list[tuple[Source, RuleJudgement]]:
    """Return each source with its judgement.

    Hundreds of single hosts are judged once if no rule distinguishes them."""
    judgements: list[tuple[Source, RuleJudgement]] = []
    for version in (4, 6):
        family = [source for source in sources if source.version == version]
        if family and _alike(rules, family):
            judgement = judge(rules, policy, family[0], ports)
            judgements += [(source, judgement) for source in family]
        else:
            judgements += [(source, judge(rules, policy, source, ports)) for source in family]
    return judgements


def _alike(rules: Sequence[FirewallRule], sources: Sequence[Source]) -> bool:
    source_set = frozenset(sources)
    return all(
        rule.sources is None
        or source_set <= frozenset(rule.sources)
        or all(within_any(source, rule.sources) for source in sources)
        or not any(overlaps_any(source, rule.sources) for source in sources)
        for rule in rules
        if rule.meets(sources[0])
    )


def common(ports: PortSet, other_ports: PortSet) -> PortSet:
    return ports - (ports - other_ports)


def overlap(source: Source, network: Source) -> bool:
    if isinstance(source, IPv4Network):
        return isinstance(network, IPv4Network) and source.overlaps(network)
    return isinstance(network, IPv6Network) and source.overlaps(network)


def within(source: Source, network: Source) -> bool:
    if isinstance(source, IPv4Network):
        return isinstance(network, IPv4Network) and source.subnet_of(network)
    return isinstance(network, IPv6Network) and source.subnet_of(network)


def overlaps_any(source: Source, networks: Iterable[Source]) -> bool:
    return any(overlap(source, network) for network in networks)


def within_any(source: Source, networks: Iterable[Source]) -> bool:
    return any(within(source, network) for network in networks)


def read_source(text: str) -> Source:
    """Return a source as rules have it. Raise ValueError for a set's name, a range or a host name."""
    return ip_network(text, strict=False)


def port_set(items: Iterable[str], *, dash: str = "-") -> PortSet:
    """Return the ports of items such as `22` and `60000-60031`, or with another dash. Raise ValueError for the names of
    services."""
    return PortSet.of((int(low), int(high or low)) for low, _, high in (item.partition(dash) for item in items))


def groups(ports: PortSet, most: int = 15) -> list[PortSet]:
    """Return the ports in sets of at most `most`, the limit of a tool's rule. A range counts two (iptables, ufw)."""
    port_groups: list[list[tuple[int, int]]] = [[]]
    used = 0
    for low, high in ports.ranges:
        cost = 1 if low == high else 2
        if used + cost > most:
            port_groups.append([])
            used = 0
        used += cost
        port_groups[-1].append((low, high))
    return [PortSet(tuple(group)) for group in port_groups if group]
