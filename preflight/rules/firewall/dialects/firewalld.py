"""Rich rules as `firewall-cmd` prints them, and the other openings of a zone."""

import re
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from preflight.facts.parsers.linux.firewalld import PRIORITY, is_ours
from preflight.facts.sections.firewall import Zone
from preflight.model.ports import PortSet
from preflight.rules.firewall.rules import FirewallRule, Source, port_set, read_source

PRIORITIES_SINCE = (0, 7)  # the first version of firewalld that has priorities in rich rules
_ELEMENT = re.compile(r'(\w[\w-]*)(?:="([^"]*)")?')
_CLOSES = {"reject": "drop", "drop": "drop", "accept": "accept", "mark": "none"}
_NO_PORT = ("icmp-block", "icmp-type", "masquerade", "forward-port")
# Elements and attributes that have no effect on the cluster's connections.
_IDLE = ("rule", "priority", "source", "port", "audit", "log", "nflog", "prefix", "level", "type", "group")
_RANK_OF_PORTS = (0, 1)


def zone_rules(zone: Zone) -> list[FirewallRule]:
    """Return a zone's rules in the order in which firewalld applies them.

    The order is: rich rules of negative priority, those that close, ports and services, those that open, rich rules of
    positive priority."""
    ranked = [(_rank(rule), rule) for rule in map(parse, zone.rich_rules)]
    ranked += [(_RANK_OF_PORTS, _port(text)) for text in zone.ports]
    return [rule for _, rule in sorted(ranked, key=itemgetter(0))]


def _rank(rule: FirewallRule) -> tuple[int, int]:
    """Return the sort key of a rich rule: its priority, and for priority 0 its place before or after the ports."""
    number = priority(rule.text)
    return (number, 0) if number or rule.verdict == "drop" else (0, 2)


def policy(zone: Zone) -> str:
    return "accept" if zone.target == "ACCEPT" else "drop"


def priority(text: str) -> int:
    match = re.search(r'\bpriority="?(-?\d{1,5})', text)
    return int(match[1]) if match else 0


def _port(text: str) -> FirewallRule:
    ports, _, protocol = text.partition("/")
    rule = FirewallRule(f"port {text}", "accept", never=protocol != "tcp")
    try:
        return replace(rule, ports=port_set([ports]))
    except ValueError:
        return replace(rule, partial=True)


def parse(text: str) -> FirewallRule:
    """Read one rich rule. Never raises; an element that is not understood makes the rule partial."""
    rule, element = FirewallRule(text, "none"), ""
    for name, value in _ELEMENT.findall(text):
        element = element if value else name
        try:
            rule = _element(rule, element, name, value)
        except ValueError:
            rule = replace(rule, partial=True)
    return rule


def _element(rule: FirewallRule, element: str, name: str, value: str) -> FirewallRule:
    """Return the rule with one more element, or with one more attribute of `element`, the last word without a value."""
    if name in _CLOSES and not value:
        return replace(rule, verdict=_CLOSES[name])
    if name in ("family", "address") or (value and name in ("port", "protocol")):
        return _condition(rule, element, name, value)
    if name == "invert":  # an older spelling of NOT
        return replace(rule, sources=None, partial=True)
    if name in _NO_PORT:
        return replace(rule, never=True)
    return rule if name in _IDLE else replace(rule, partial=True)


def _condition(rule: FirewallRule, element: str, name: str, value: str) -> FirewallRule:
    """Return the rule with one more condition on a connection's source or port."""
    if name == "family":
        return replace(rule, family=6 if value == "ipv6" else 4)
    if name == "port":
        return replace(rule, ports=port_set([value]))
    if name == "protocol":
        return rule.never_unless(value == "tcp")
    if element == "source":  # not "destination", nor "source NOT"
        return replace(rule, sources=(read_source(value),))
    return replace(rule, partial=True)


def ours(source: Source, ports: PortSet) -> list[str]:
    """Return our rules for one network as firewalld prints them: one a range, as a rich rule has one port element."""
    return [
        f'rule priority="{PRIORITY}" family="ipv{source.version}" source address="{source}" '
        f'port port="{PortSet((pair,))}" protocol="tcp" accept'
        for pair in ports.ranges
    ]


def command(zone: str, rules: Sequence[str]) -> str:
    """Return the command for these rules where firewalld is too old for priorities, and so for our mark."""
    plain = (rule.replace(f'priority="{PRIORITY}" ', "") for rule in rules)
    return f"firewall-cmd --zone={zone} " + " ".join(f"--add-rich-rule='{rule}'" for rule in plain)


_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_RULE = re.compile(r"<rule\b.*?</rule>", re.DOTALL)
_WORD = re.compile(r'<(\w[\w-]*)|([\w-]+)="([^"]*)"')
_ORDER = ("rule", "priority=", "family=", "source", "address=", "port", "port=", "protocol=", "accept")


def rules_in(xml: str) -> tuple[str, ...]:
    """Return our rules in a zone's file, as rich rules. remote/apply/firewalld.py reads the same on the host."""
    return tuple(filter(is_ours, map(_rich, _RULE.findall(_COMMENT.sub("", xml)))))


def _rich(block: str) -> str:
    """Return a rule of a zone's file in the words of a rich rule; one of ours to the character."""
    words = [name or f'{key}="{value}"' for name, key, value in _WORD.findall(block)]
    return " ".join(sorted(words, key=_place))


def _place(word: str) -> int:
    name, equals, _ = word.partition("=")
    return _ORDER.index(name + equals) if name + equals in _ORDER else len(_ORDER)
