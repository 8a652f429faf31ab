"""What firewall rules do to new TCP connections from the cluster's networks, as far as that can be told. Pure.

Rules are read as `nft list chain` prints them (nftables 1.0), and only the plain part of the language: addresses,
ports, protocol, interface, connection state, counters, comments. Whatever else a rule says makes it *partial*: it may
or may not meet a packet of ours. So a partial accept opens nothing, and a partial drop leaves a doubt.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from preflight.model.ports import PortSet

EVERY_PORT = PortSet(((0, 65535),))
COMMENT = 'comment "preflight"'
_TOKEN = re.compile(r'"[^"]*"|\{[^{}]*\}|\S+')


@dataclass(frozen=True)
class Rule:
    """One rule, reduced to what matters to a new TCP connection. None: any source, any port."""

    text: str
    verdict: str  # accept | drop | jump (to a chain that is not known) | none: counts or logs only
    sources: tuple[IPv4Network, ...] | None = None
    ports: PortSet | None = None
    partial: bool = False  # has conditions that cannot be judged
    never: bool = False  # cannot meet a new IPv4 TCP connection from another host


def _elements(token: str) -> list[str]:
    return [item.strip() for item in token.strip("{}").split(",") if item.strip()]


def parse_rule(text: str) -> Rule:
    """Read one rule of an nft chain. Never raises: what is not understood makes the rule partial."""
    words = _TOKEN.findall(text)
    rule = Rule(text, "none")
    at = 0
    while at < len(words):
        word, rest = words[at], words[at + 1 :]
        if word in ("accept", "drop", "reject", "jump", "goto", "return", "queue"):
            verdict = {"reject": "drop", "accept": "accept", "drop": "drop"}.get(word, "jump")
            return replace(rule, verdict=verdict)
        condition, used = _condition(rule, word, rest)
        if condition is None:
            return replace(rule, partial=True, verdict=_verdict_anywhere(words))
        rule, at = condition, at + used
    return rule


def _verdict_anywhere(words: Sequence[str]) -> str:
    """The worst that a rule with unknown parts may do; a verdict map counts as all its verdicts."""
    verdicts = {word.strip(",") for token in words for word in token.strip("{}").replace(":", " ").split()}
    if verdicts & {"drop", "reject"}:
        return "drop"
    if verdicts & {"jump", "goto", "return", "queue"}:
        return "jump"
    return "accept" if "accept" in verdicts else "none"


def _condition(rule: Rule, word: str, rest: Sequence[str]) -> tuple[Rule | None, int]:
    """The rule with one more condition or statement, and how many words that took; None: not understood."""
    if word == "counter":  # "counter", "counter packets 0 bytes 0", "counter name x"
        return rule, 1 + {"packets": 4, "name": 2}.get(rest[0] if rest else "", 0)
    if word == "comment":
        return rule, 2
    if word == "log":  # "log", "log prefix "x" level warn"
        used = 0
        while used < len(rest) and rest[used] in ("prefix", "level", "group", "snaplen"):
            used += 2
        return rule, 1 + used
    if word in ("ip6", "udp", "icmp", "icmpv6", "sctp"):
        return replace(rule, never=True), len(rest) + 1
    if word in ("iif", "iifname"):
        if rest[:2] == ["!=", '"lo"']:
            return rule, 3
        return replace(rule, never=rule.never or rest[:1] == ['"lo"'], partial=True), 2
    if len(rest) < 2:
        return None, 0
    subject, value = f"{word} {rest[0]}", rest[1]
    if subject == "ct state" and value == "vmap" and "new" not in rest[2].replace(":", " ").split():
        return replace(rule, never=True), 4
    if value in ("!=", "==", "&", "<", ">", "vmap", "map"):
        return None, 0
    never = {
        "meta nfproto": value != "ipv4",
        "ip protocol": "tcp" not in _elements(value),
        "meta l4proto": "tcp" not in _elements(value),
        "ct state": "new" not in _elements(value),
    }
    if subject in never:
        return replace(rule, never=rule.never or never[subject]), 3
    try:
        if subject == "ip saddr":
            return replace(rule, sources=tuple(IPv4Network(item, strict=False) for item in _elements(value))), 3
        if subject in ("tcp dport", "th dport"):
            return replace(rule, ports=_ports(_elements(value))), 3
    except ValueError:  # a named set (@cluster) or an address range
        pass
    return None, 0


def _ports(items: Iterable[str]) -> PortSet:
    return PortSet.of((int(low), int(high or low)) for low, _, high in (item.partition("-") for item in items))


@dataclass(frozen=True)
class Judgement:
    """What a list of rules does to the asked ports from one network."""

    closed: PortSet  # not let through
    doubtful: PortSet  # let through unless a rule that cannot be judged, or a chain that was jumped to, objects
    by: str  # the rule that closes or may close first, or "policy drop"


def judge(rules: Sequence[Rule], policy: str, source: IPv4Network, ports: PortSet) -> Judgement:
    """Follow new TCP connections from `source` to `ports` through `rules`, first match wins, then `policy`."""
    undecided, closed, doubtful, closing, doubting = ports, PortSet(), PortSet(), "", ""
    for rule in rules:
        if rule.never or rule.verdict == "none" or not undecided:
            continue
        whole = rule.sources is None or any(source.subnet_of(network) for network in rule.sources)
        touches = rule.sources is None or any(source.overlaps(network) for network in rule.sources)
        met = _common(undecided, rule.ports or EVERY_PORT)
        if not met or not touches:
            continue
        if rule.verdict == "accept" and whole and not rule.partial:
            undecided -= met
        elif rule.verdict == "drop" and not rule.partial:
            closed, undecided, closing = closed | met, undecided - met, closing or rule.text
        elif rule.verdict in ("drop", "jump"):
            doubtful, doubting = doubtful | met, doubting or rule.text
    if policy == "drop" and undecided:
        closed, closing = closed | undecided, closing or "policy drop"
    return Judgement(closed, doubtful - closed, closing or doubting)


def _common(one: PortSet, other: PortSet) -> PortSet:
    return one - (one - other)


def parse_ufw(text: str) -> Rule:
    """Read one rule of ufw as the facts have it: `allow tcp 29500,60000:60031 from 10.1.0.0/16`. Never raises."""
    action, protocol, ports, *rest = [*text.split(), "", "", ""]
    rule = Rule(text, "accept" if action == "allow" else "drop" if action in ("deny", "reject") else "none")
    if protocol not in ("tcp", "any"):
        return replace(rule, never=True)
    try:
        if ports != "any":
            rule = replace(rule, ports=_ports(ports.replace(":", "-").split(",")))
        if rest[:1] == ["from"] and rest[1] not in ("any", "0.0.0.0/0"):
            rule = replace(rule, sources=(IPv4Network(rest[1], strict=False),))
    except (ValueError, IndexError):
        return replace(rule, partial=True)
    return replace(rule, partial=bool(" ".join(rest[2:]).strip()))


def nft_rule(source: IPv4Network, ports: PortSet) -> str:
    """Our rule for one network, as `nft list chain` prints it, to the character (measured with nftables 1.0.6)."""
    address = source.network_address if source.prefixlen == 32 else source
    listed = str(ports).replace(",", ", ")
    if len(ports.ranges) > 1:
        listed = f"{{ {listed} }}"
    return f"ip saddr {address} tcp dport {listed} accept {COMMENT}"


def ufw_rules(source: IPv4Network, ports: PortSet) -> list[str]:
    """Our rules for one network, as the facts give ufw's rules back. ufw takes 15 ports a rule; a range counts two."""
    groups: list[list[str]] = [[]]
    used = 0
    for low, high in ports.ranges:
        cost = 1 if low == high else 2
        if used + cost > 15:
            groups.append([])
            used = 0
        used += cost
        groups[-1].append(str(low) if low == high else f"{low}:{high}")
    return [f"allow tcp {','.join(group)} from {source}" for group in groups if group]
