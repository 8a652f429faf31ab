"""Rules as the facts have ufw's: `allow tcp 29500,60000:60031 from 10.1.0.0/16`."""

from dataclasses import replace

from preflight.checks.rules import Rule, Source, groups, port_set, read_source
from preflight.model.ports import PortSet

_VERDICTS = {"allow": "accept", "deny": "drop", "reject": "drop"}  # limit: accepts, until it does not


def parse(text: str) -> Rule:
    """Read one rule. Never raises."""
    action, protocol, ports, *rest = [*text.split(), "", "", ""]
    rule = Rule(text, _VERDICTS.get(action, "none"))
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
    return replace(rule, partial=bool(" ".join(rest[2:]).strip()))


def ours(source: Source, ports: PortSet) -> list[str]:
    """Our rules for one network, as the facts give them back."""
    return [f"allow tcp {str(group).replace('-', ':')} from {source}" for group in groups(ports)]
