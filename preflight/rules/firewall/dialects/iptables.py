"""Rules as `iptables -S INPUT` prints them, without `-A INPUT`."""

import re
from collections.abc import Iterator, Sequence
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
_OPENING_FLAGS = (("FIN,SYN,RST,ACK", "SYN"), ("SYN,RST,ACK", "SYN"))  # of a packet that opens a connection


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
    if option == "--tcp-flags":
        return rule if (value, words.pop(0)) in _OPENING_FLAGS else replace(rule, partial=True)
    return _condition(rule, option, value)


def _condition(rule: FirewallRule, option: str, value: str) -> FirewallRule:
    """Return the rule with one more option that has one argument."""
    if option == "-m":
        return rule if value in _PLAIN else replace(rule, partial=True)
    if option == "-p":
        return rule.never_unless(value in ("tcp", "6", "all", "0"))
    if option == "-i":
        return replace(rule.never_unless(value != "lo"), partial=True)
    if option in _STATES:
        return rule.never_unless("NEW" in value.split(","))
    if option == "-s":
        return replace(rule, sources=(read_source(value),))
    if option in _PORTS:
        return replace(rule, ports=port_set(value.split(","), dash=":"))
    return rule


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


def commands(program: str, rules: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that insert these rules."""
    return tuple(f"{program} -w -I INPUT {rule}" for rule in rules)


def with_rules(saved: str, rules: Sequence[str]) -> str:
    """Return a file of iptables-save with `rules` as ours, first in the chain INPUT of `filter`. All other lines are
    kept."""
    kept = [(table, line) for table, line in _with_tables(saved) if not _is_ours(table, line)]
    lines = [line for _, line in kept]
    place = next((number for number, (table, line) in enumerate(kept) if _follows_ours(table, line)), None)
    if place is not None:
        counters = "[0:0] " if lines[place].startswith("[") else ""
        lines[place:place] = [f"{counters}-A INPUT {rule}\n" for rule in rules]
    return "".join(lines)


def _with_tables(saved: str) -> Iterator[tuple[str, str]]:
    """Yield each line with the table that it is in."""
    table = ""
    for line in saved.splitlines(keepends=True):
        if line.startswith("*"):
            table = line[1:].strip()
        yield table, line


def _is_ours(table: str, line: str) -> bool:
    is_of_input = table == "filter" and "INPUT" in line.split()[:3]
    return is_of_input and is_ours(line.strip().rpartition("-A INPUT ")[2])


def _follows_ours(table: str, line: str) -> bool:
    """Return whether our rules belong before this line: a rule of INPUT, or the end of the table."""
    words = line.split()
    return table == "filter" and (words == ["COMMIT"] or ("INPUT" in words[:3] and "-A" in words))
