"""What `nft list ruleset` prints. Only base chains with hook input matter here: they decide what gets in."""

import re

from preflight.facts.quote import quote
from preflight.facts.types import Missing, NftChain

TAG = ' comment "preflight"'  # how a rule says that it is ours
_TABLE = re.compile(r"table (\w{1,10}) (\S{1,200}) \{")
_CHAIN = re.compile(r"chain (\S{1,200}) \{")
_HOOK = re.compile(r"type \w+ hook input (?:device .*? )?priority [^;]{1,60};(?: policy (\w+);)?")
_STRING = re.compile(r'"[^"]*"')


def _depth(line: str) -> int:
    """By how many braces the line opens or closes; braces inside strings do not count."""
    bare = _STRING.sub("", line)
    return bare.count("{") - bare.count("}")


def ruleset(text: str) -> tuple[NftChain, ...] | Missing:
    """The base chains with hook input, with their rules as nft prints them; no policy printed means accept."""
    chains: list[NftChain] = []
    table = ("", "")
    chain = ""
    rules: list[str] | None = None  # None: not in a chain with hook input
    policy = "accept"
    depth = 0
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if depth == 0:
            match = _TABLE.fullmatch(line)
            if not match:
                return Missing(f"nft list ruleset: {quote(line)} is not understood")
            table = (match.group(1), match.group(2))
        elif depth == 1 and (match := _CHAIN.fullmatch(line)):
            chain = match.group(1)
        elif depth == 2 and chain:
            if line == "}":
                if rules is not None:
                    ours = tuple(rule for rule in rules if rule.endswith(TAG))
                    chains.append(NftChain(*table, chain, policy, tuple(rules), ours))
                chain, rules, policy = "", None, "accept"
            elif match := _HOOK.fullmatch(line):
                rules, policy = [], match.group(1) or "accept"
            elif rules is not None:
                rules.append(line)
        depth += _depth(line)
    if depth != 0:
        return Missing("nft list ruleset: the listing is cut")
    return tuple(chains)
