"""Rules of ufw as the facts have them: `allow tcp 29500,60000:60031 from 10.1.0.0/16`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.model.ports import PortSet
from preflight.rules.firewall.rules import EVERY_PORT, FirewallRule, Source, groups, judge, port_set, read_source

# limit: accepts six connections in 30 seconds and rejects the seventh
_VERDICTS = {"allow": "accept", "deny": "drop", "reject": "drop", "limit": "drop"}
_LOGS = re.compile(r"_(log(?:-all)?)$")


def parse(text: str) -> FirewallRule:
    """Read one rule. Never raises."""
    action, protocol, ports, *origin = [*text.split(), "", "", ""]
    action = _LOGS.sub("", action)
    rule = FirewallRule(text, _VERDICTS.get(action, "none"), partial=action == "limit")
    if protocol not in ("tcp", "any"):
        return replace(rule, never=True)
    try:
        if ports != "any":
            rule = replace(rule, ports=port_set(ports.split(","), dash=":"))
        if origin[:1] == ["from"] and origin[1] != "any":
            source = read_source(origin[1])  # 0.0.0.0/0 is in the file of IPv4, ::/0 in that of IPv6
            rule = replace(rule, sources=(source,), family=source.version)
    except (ValueError, IndexError):
        return replace(rule, partial=True)
    return replace(rule, partial=rule.partial or bool(" ".join(origin[2:]).strip()))


def ours(source: Source, ports: PortSet) -> list[str]:
    """Return our rules for one network as the facts have them."""
    return [f"allow tcp {str(group).replace('-', ':')} from {source}" for group in groups(ports)]


def addable(
    needed: Iterable[FirewallRule], others: Sequence[FirewallRule], policy: str
) -> tuple[tuple[FirewallRule, ...], tuple[str, ...]]:
    """Return those of our rules that ufw can add to the site's, and the commands that make way for the others.

    If two rules differ only in action, logging or comment, ufw prints "Skipping" and succeeds, but adds none. A rule of
    ours is not needed where the site's rules already let its connections in."""
    accepted: list[FirewallRule] = []
    commands: list[str] = []
    for rule in needed:
        existing = next((site_rule for site_rule in others if _condition(site_rule) == _condition(rule)), None)
        (source,) = rule.sources or ()
        if existing is None:
            accepted.append(rule)
        elif judge(others, policy, source, rule.ports or EVERY_PORT).objects:
            commands.append("ufw delete " + _words(existing.text))
    return tuple(accepted), tuple(commands)


def _condition(rule: FirewallRule) -> object:
    """Return all of a rule that ufw compares, networks and ports by their value."""
    _, protocol, _, _, _, *options = rule.text.split()
    return protocol, rule.sources, rule.ports, options


def _words(text: str) -> str:
    """Return a rule of the facts in the words of ufw's command line."""
    action, protocol, ports, _, source = text.split()[:5]
    action = _LOGS.sub(r" \1", action)
    return f"{action} proto {protocol} from {source} to any port {ports}"
