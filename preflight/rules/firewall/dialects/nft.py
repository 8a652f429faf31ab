"""Rules as `nft list chain` prints them (nftables 1.0)."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile

from preflight.model.ports import PortSet
from preflight.rules.firewall.rules import FirewallRule, Source, port_set, read_source

COMMENT = 'comment "preflight"'
_TOKEN = re.compile(r'"[^"]*"|\{[^{}]*\}|\S+')
_VERDICTS = {"reject": "drop", "accept": "accept", "drop": "drop"}
_ELSEWHERE = ("jump", "goto", "return", "queue")
_NEVER = ("udp", "icmp", "icmpv6", "sctp")
_WANTED_ELEMENTS = {"ip protocol": "tcp", "ip6 nexthdr": "tcp", "meta l4proto": "tcp", "ct state": "new"}
_SOURCE_FAMILIES = {"ip saddr": 4, "ip6 saddr": 6}


@lru_cache(4096)  # every host has the same rules, and a rule may name hundreds of addresses
def parse(text: str) -> FirewallRule:
    """Read one rule. Never raises; a word that is not understood makes the rule partial."""
    words = _TOKEN.findall(text)
    rule = FirewallRule(text, "none")
    at = 0
    while at < len(words):
        word, next_words = words[at], words[at + 1 :]
        if word in _VERDICTS or word in _ELSEWHERE:
            return replace(rule, verdict=_VERDICTS.get(word, "jump"))
        condition, length = _condition(rule, word, next_words)
        if condition is None:
            return replace(rule, partial=True, verdict=_verdict_anywhere(words))
        rule, at = condition, at + length
    return rule


def _verdict_anywhere(words: Sequence[str]) -> str:
    """Return the worst that a rule with unknown parts may do; a verdict map counts as all its verdicts."""
    verdicts = {word.strip(",") for token in words for word in token.strip("{}").replace(":", " ").split()}
    if verdicts & {"drop", "reject"}:
        return "drop"
    if verdicts & set(_ELSEWHERE):
        return "jump"
    return "accept" if "accept" in verdicts else "none"


def _condition(rule: FirewallRule, word: str, next_words: Sequence[str]) -> tuple[FirewallRule | None, int]:
    """Return the rule with one more condition or statement, and the number of words read. None: not understood."""
    if length := _statement_length(word, next_words):
        return rule, length
    if word in _NEVER:
        return replace(rule, never=True), len(next_words) + 1
    if word in ("iif", "iifname"):
        if next_words[:2] == ["!=", '"lo"']:
            return rule, 3
        return replace(rule.never_unless(next_words[:1] != ['"lo"']), partial=True), 2
    if word == "ct" and next_words[:2] == ["state", "vmap"] and "new" not in next_words[2].replace(":", " ").split():
        return replace(rule, never=True), 4
    if len(next_words) < 2:
        return None, 0
    return _match(rule, f"{word} {next_words[0]}", next_words[1]), 3


def _statement_length(word: str, next_words: Sequence[str]) -> int:
    """Return the number of words of a statement that counts, logs or comments; 0 for any other word."""
    if word == "counter":  # "counter", "counter packets 0 bytes 0", "counter name x"
        return 1 + {"packets": 4, "name": 2}.get(next_words[0] if next_words else "", 0)
    if word == "log":  # "log", "log prefix "x" level warn"
        options = takewhile(("prefix", "level", "group", "snaplen").__contains__, next_words[::2])
        return 1 + 2 * len(list(options))
    return 2 if word == "comment" else 0


def _match(rule: FirewallRule, subject: str, value: str) -> FirewallRule | None:
    """Return the same for a condition of three words, such as `ip saddr 10.1.0.0/24`."""
    if value in ("!=", "==", "&", "<", ">", "vmap", "map"):
        return None
    if subject in _WANTED_ELEMENTS:
        return rule.never_unless(_WANTED_ELEMENTS[subject] in _elements(value))
    if subject == "meta nfproto":
        return _of_family(rule, 6 if value == "ipv6" else 4)
    with suppress(ValueError):  # a named set (@cluster) or an address range
        if subject in _SOURCE_FAMILIES:
            sources = tuple(map(read_source, _elements(value)))
            return _of_family(replace(rule, sources=sources), _SOURCE_FAMILIES[subject])
        if subject in ("tcp dport", "th dport"):
            return replace(rule, ports=port_set(_elements(value)))
    return replace(rule, family=6, partial=True) if subject.startswith("ip6 ") else None


def _of_family(rule: FirewallRule, family: int) -> FirewallRule:
    return replace(rule.never_unless(rule.family in (0, family)), family=family)


def _elements(token: str) -> list[str]:
    return [item.strip() for item in token.strip("{}").split(",") if item.strip()]


@lru_cache(64)
def ours(networks: tuple[Source, ...], ports: PortSet) -> str:
    """Return our rule for networks of one family as nft prints it, to the character (measured with nftables 1.0.6)."""
    addresses = [
        str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)
        for network in sorted(networks)
    ]
    word = "ip6" if networks[0].version == 6 else "ip"
    return f"{word} saddr {_set(addresses)} tcp dport {_set(str(ports).split(','))} accept {COMMENT}"


def _set(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{{ {', '.join(items)} }}"
