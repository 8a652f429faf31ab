"""The effect of firewall rules on new TCP connections from the cluster's networks, as far as it is known. Pure.

`dialects` read the rules of each tool into `Rule`, and only the plain part of each language: addresses, ports,
protocol, interface, connection state, counters, comments. Whatever else a rule says makes it *partial*: it may or may
not meet a packet of ours. So a partial accept opens nothing for certain, and a partial drop leaves a doubt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network

from preflight.model.ports import PortSet

Source = IPv4Network | IPv6Network  # where connections come from
EVERY_PORT = PortSet(((0, 65535),))


@dataclass(frozen=True)
class FirewallRule:
    """One rule, reduced to what matters to a new TCP connection. None: any source, any port."""

    text: str
    verdict: str  # accept | drop | jump (to a chain that is not known) | none: counts or logs only
    sources: tuple[Source, ...] | None = None
    ports: PortSet | None = None
    partial: bool = False  # has conditions that cannot be judged
    never: bool = False  # cannot meet a new TCP connection from another host
    family: int = 0  # 4 or 6: meets no other; 0: both

    @property
    def meaning(self) -> object:
        """What it does, whatever the words and their order: two of our rules with the same meaning are the same."""
        return self.verdict, frozenset(self.sources or ()), self.ports, self.partial, self.never

    def meets(self, source: Source) -> bool:
        """Whether it can meet something from there at all."""
        return not self.never and self.verdict != "none" and self.family in (0, source.version)


@dataclass(frozen=True)
class RuleJudgement:
    """What a list of rules does to the asked ports from one network."""

    closed: PortSet  # not let through
    doubtful: PortSet  # let through unless a rule that cannot be judged, or a chain that was jumped to, objects
    by: str  # the rule that closes or may close first, or "policy drop"
    perhaps: PortSet = field(default_factory=PortSet)  # closed unless a rule that cannot be judged lets them in first

    @property
    def objects(self) -> PortSet:
        return self.closed | self.doubtful

    @property
    def unsure(self) -> bool:
        """Whether a rule that cannot be judged decides about all that is objected to."""
        return self.closed <= self.perhaps


def judge(rules: Sequence[FirewallRule], policy: str, source: Source, ports: PortSet) -> RuleJudgement:
    """Follow new TCP connections from `source` to `ports` through `rules`, first match wins, then `policy`."""
    undecided, closed, doubtful, maybe, closing, doubting = ports, PortSet(), PortSet(), PortSet(), "", ""
    for rule in rules:
        if not undecided or not rule.meets(source):
            continue
        met = common(undecided, rule.ports or EVERY_PORT)
        if not met or not any(overlap(source, network) for network in rule.sources or (source,)):
            continue
        whole = any(within(source, network) for network in rule.sources or (source,))
        if rule.verdict == "accept" and whole and not rule.partial:
            undecided -= met
        elif rule.verdict == "accept":
            maybe |= met
        elif rule.verdict == "drop" and not rule.partial:
            closed, undecided, closing = closed | met, undecided - met, closing or rule.text
        elif rule.verdict in ("drop", "jump"):
            doubtful, doubting = doubtful | met, doubting or rule.text
    if policy == "drop" and undecided:
        closed, closing = closed | undecided, closing or "policy drop"
    return RuleJudgement(closed, doubtful - closed, closing or doubting, common(closed, maybe | doubtful))


def judge_all(
    rules: Sequence[FirewallRule], policy: str, sources: Sequence[Source], ports: PortSet
) -> list[tuple[Source, RuleJudgement]]:
    """Each source with what it meets. Hundreds of hosts one by one are judged once where no rule tells them apart."""
    found: list[tuple[Source, RuleJudgement]] = []
    for version in (4, 6):
        family = [source for source in sources if source.version == version]
        if family and _alike(rules, family):
            seen = judge(rules, policy, family[0], ports)
            found += [(source, seen) for source in family]
        else:
            found += [(source, judge(rules, policy, source, ports)) for source in family]
    return found


def _alike(rules: Sequence[FirewallRule], sources: Sequence[Source]) -> bool:
    all_ = frozenset(sources)
    return all(
        rule.sources is None
        or all_ <= frozenset(rule.sources)
        or all(any(within(source, one) for one in rule.sources) for source in sources)
        or not any(overlap(source, one) for one in rule.sources for source in sources)
        for rule in rules
        if rule.meets(sources[0])
    )


def common(one: PortSet, other: PortSet) -> PortSet:
    return one - (one - other)


def overlap(one: Source, other: Source) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return isinstance(other, IPv6Network) and one.overlaps(other)


def within(one: Source, other: Source) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.subnet_of(other)
    return isinstance(other, IPv6Network) and one.subnet_of(other)


def read_source(text: str) -> Source:
    """A source as rules have it; raises ValueError for a set's name, a range, a host name."""
    return ip_network(text, strict=False)


def port_set(items: Iterable[str], *, dash: str = "-") -> PortSet:
    """Of `22` and `60000-60031`, or with another dash; raises ValueError for the names of services."""
    return PortSet.of((int(low), int(high or low)) for low, _, high in (item.partition(dash) for item in items))


def groups(ports: PortSet, most: int = 15) -> list[PortSet]:
    """The ports in as many sets as a tool needs that takes so many in a rule; a range counts two (iptables, ufw)."""
    found: list[list[tuple[int, int]]] = [[]]
    used = 0
    for low, high in ports.ranges:
        cost = 1 if low == high else 2
        if used + cost > most:
            found.append([])
            used = 0
        used += cost
        found[-1].append((low, high))
    return [PortSet(tuple(group)) for group in found if group]
