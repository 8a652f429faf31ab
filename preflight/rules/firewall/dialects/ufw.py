"""Rules as the facts have ufw's: `allow tcp 29500,60000:60031 from 10.1.0.0/16`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.model.ports import PortSet
from preflight.rules.firewall.rules import EVERY_PORT, FirewallRule, Source, groups, judge, port_set, read_source

# limit: accepts, but for the seventh connection in 30 seconds, which it rejects
_VERDICTS = {"allow": "accept", "deny": "drop", "reject": "drop", "limit": "drop"}
_LOGS = re.compile(r"_(log(?:-all)?)$")


def parse(text: str) -> FirewallRule:
    """Read one rule. Never raises."""
    action, protocol, ports, *rest = [*text.split(), "", "", ""]
    action = _LOGS.sub("", action)
    rule = FirewallRule(text, _VERDICTS.get(action, "none"), partial=action == "limit")
    if protocol not in ("tcp", "any"):
        return replace(rule, never=True)
    try:
        if ports != "any":
            rule = replace(rule, ports=port_set(ports.split(","), dash=":"))
        if rest[:1] == ["from"] and rest[1] != "any":
            source = read_source(rest[1])  # 0.0.0.0/0 stands in the file of IPv4, ::/0 in that of IPv6
            rule = replace(rule, sources=(source,), family=source.version)
    except (ValueError, IndexError):
        return replace(rule, partial=True)
    return replace(rule, partial=rule.partial or bool(" ".join(rest[2:]).strip()))


def ours(source: Source, ports: PortSet) -> list[str]:
    """Our rules for one network, as the facts give them back."""
    return [f"allow tcp {str(group).replace('-', ':')} from {source}" for group in groups(ports)]


def addable(
    needed: Iterable[FirewallRule], others: Sequence[FirewallRule], policy: str
) -> tuple[tuple[FirewallRule, ...], str]:
    """Which of our rules can stand beside the site's own, and what a person has to type before the others can.

    ufw takes no rule that differs from another only in action, logging or comment: it says "Skipping", and succeeds.
    Where the site's rules let in what such a rule of ours would, it is not needed."""
    able: list[FirewallRule] = []
    by_hand: list[str] = []
    for rule in needed:
        same = next((other for other in others if _condition(other) == _condition(rule)), None)
        (source,) = rule.sources or ()
        if same is None:
            able.append(rule)
        elif judge(others, policy, source, rule.ports or EVERY_PORT).objects:
            by_hand.append("ufw delete " + _words(same.text))
    return tuple(able), "; ".join(by_hand)


def _condition(rule: FirewallRule) -> object:
    """All of a rule that ufw compares, networks and ports by their value."""
    _, protocol, _, _, _, *more = rule.text.split()
    return protocol, rule.sources, rule.ports, more


def _words(text: str) -> str:
    """A rule of the facts in the words of ufw's command line."""
    action, protocol, ports, _, source = text.split()[:5]
    action = _LOGS.sub(r" \1", action)
    return f"{action} proto {protocol} from {source} to any port {ports}"
