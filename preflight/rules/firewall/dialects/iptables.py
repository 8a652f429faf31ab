"""Rules as `iptables -S INPUT` prints them, without `-A INPUT`."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from preflight.facts.parsers.linux.iptables import is_ours
from preflight.model.ports import PortSet
from preflight.rules.firewall.rules import FirewallRule, Source, groups, port_set, read_source

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
_VERDICTS = {"ACCEPT": "accept", "DROP": "drop", "REJECT": "drop"}
_GOES_ON = ("LOG", "NFLOG", "ULOG", "MARK", "CONNMARK", "TRACE", "AUDIT", "CLASSIFY", "SECMARK", "CONNSECMARK")
_PLAIN = ("tcp", "multiport", "conntrack", "state", "comment")  # Matches with options that are read below.
# Options with one argument that have no effect on the cluster's connections.
_IDLE = ("--comment", "--reject-with", "--log-prefix", "--log-level", "--nflog-prefix", "--nflog-group", "-c")
_TARGET = ("-j", "-g")
_STATES = ("--ctstate", "--state")
_PORTS = ("--dport", "--dports")
_WITH_A_WORD = (*_IDLE, *_TARGET, *_STATES, *_PORTS, "-m", "-p", "-i", "-s", "--tcp-flags")
_SYN = ("FIN,SYN,RST,ACK", "SYN,RST,ACK", "SYN")


def parse(text: str, family: int = 4) -> FirewallRule:
    """Read one rule of the IPv4 or the IPv6 program. Never raises; an option that is not understood makes the rule
    partial."""
    words = _TOKEN.findall(text)
    rule = FirewallRule(text, _verdict(words), family=family)
    while words:
        option = words.pop(0)
        try:
            rule = _option(rule, option, words)
        except (ValueError, IndexError):
            rule = replace(rule, partial=True)
    return rule


def _verdict(words: Sequence[str]) -> str:
    """Return the verdict of the target after the last -j or -g."""
    target = next((after for word, after in reversed(list(pairwise(words))) if word in _TARGET), "")
    return _VERDICTS.get(target, "none" if not target or target in _GOES_ON else "jump")


def _option(rule: FirewallRule, option: str, words: list[str]) -> FirewallRule:
    """Return the rule with one more option, and remove the option's arguments from `words`."""
    if option == "!":
        return _negated(rule, words)
    if option == "--syn":
        return rule
    if option not in _WITH_A_WORD:  # the number of its arguments is not known, so the next words are not either
        return replace(rule, partial=True)
    value = words.pop(0)
    if option in _IDLE or option in _TARGET:
        return rule
    if option == "-m":
        return rule if value in _PLAIN else replace(rule, partial=True)
    if option == "-p":
        return replace(rule, never=rule.never or value not in ("tcp", "6", "all", "0"))
    if option == "-i":
        return replace(rule, never=rule.never or value == "lo", partial=True)
    if option in _STATES:
        return replace(rule, never=rule.never or "NEW" not in value.split(","))
    if option == "-s":
        return replace(rule, sources=(read_source(value),))
    if option in _PORTS:
        return replace(rule, ports=port_set(value.split(","), dash=":"))
    flags = words.pop(0)  # --tcp-flags of a packet that opens a connection
    return rule if (value, flags) in ((_SYN[0], "SYN"), (_SYN[1], "SYN")) else replace(rule, partial=True)


def _negated(rule: FirewallRule, words: list[str]) -> FirewallRule:
    option, value = words.pop(0), words.pop(0) if words and words[0][0] not in "-!" else ""
    return rule if (option, value) == ("-i", "lo") else replace(rule, partial=True)


def ours(source: Source, ports: PortSet) -> list[str]:
    """Return our rules for one network as iptables prints them."""
    return [
        f"-s {source} -p tcp -m multiport --dports {str(group).replace('-', ':')} "
        "-m comment --comment preflight -j ACCEPT"
        for group in groups(ports)
    ]


def command(program: str, rules: Sequence[str]) -> str:
    """Return the commands for these rules, a line a rule."""
    return "\n".join(f"{program} -w -I INPUT {rule}" for rule in rules)


def with_rules(saved: str, rules: Sequence[str]) -> str:
    """Return a file of iptables-save with `rules` as ours, first in the chain INPUT of `filter`. All other lines are
    kept."""
    lines: list[str] = []
    table, counters, place = "", "", None
    for line in saved.splitlines(keepends=True):
        words = line.split()
        if line.startswith("*"):
            table = line[1:].strip()
        if table == "filter" and "INPUT" in words[:3]:
            if is_ours(line.strip().rpartition("-A INPUT ")[2]):
                continue
            if "-A" in words and place is None:
                place, counters = len(lines), "[0:0] " if line.startswith("[") else ""
        if table == "filter" and words == ["COMMIT"] and place is None:
            place = len(lines)
        lines.append(line)
    if place is not None:
        lines[place:place] = [f"{counters}-A INPUT {rule}\n" for rule in rules]
    return "".join(lines)
