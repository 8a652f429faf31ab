"""What `nft list ruleset` prints. Base chains with hook input decide what gets in; chains that translate addresses, or
that containers need, decide whether the firewall may be switched off."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from preflight.facts.firewall import NftChain
from preflight.facts.quote import quote
from preflight.facts.types import Missing

TAG = ' comment "preflight"'  # how a rule says that it is ours
_TABLE = re.compile(r"table (\w{1,10}) (\S{1,200}) \{")
_CHAIN = re.compile(r"chain (\S{1,200}) \{")
_HOOK = re.compile(r"type \w+ hook (\w+) (?:device .*? )?priority [^;]{1,60};(?: policy (\w+);)?")
_STRING = re.compile(r'"[^"]*"')
CONTAINERS = re.compile(r"docker|kube|cali|cilium|flannel|cni-|libvirt|podman|netavark", re.IGNORECASE)
_TRANSLATES = re.compile(
    r'\b[sd]nat(?: ip6?)? to\b|\bmasquerade\b|(?<![-\w])redirect(?: to | comment |$)|xt target "(?:[SD]NAT|MASQUERADE)"'
)


@dataclass
class _Chain:
    """Any chain of the ruleset; `hook` empty: not a base chain."""

    family: str
    table: str
    name: str
    hook: str = ""
    policy: str = "accept"
    rules: list[str] = field(default_factory=list)


def _depth(line: str) -> int:
    """By how many braces the line opens or closes; braces inside strings do not count."""
    bare = _STRING.sub("", line)
    return bare.count("{") - bare.count("}")


def _chains(text: str) -> Iterator[_Chain]:
    """Every chain. Raises ValueError with a sentence for what nft does not print."""
    table = ("", "")
    chain: _Chain | None = None
    depth = 0
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if depth == 0:
            match = _TABLE.fullmatch(line)
            if not match:
                raise ValueError(f"{quote(line)} is not understood")
            table = (match.group(1), match.group(2))
        elif depth == 1 and (match := _CHAIN.fullmatch(line)):
            chain = _Chain(*table, match.group(1))
        elif depth == 2 and chain:
            if line == "}":
                yield chain
                chain = None
            elif match := _HOOK.fullmatch(line):
                chain.hook, chain.policy = match.group(1), match.group(2) or "accept"
            else:
                chain.rules.append(line)
        depth += _depth(line)
    if depth != 0:
        raise ValueError("the listing is cut")


def ruleset(text: str) -> tuple[NftChain, ...] | Missing:
    """The base chains with hook input, with their rules as nft prints them; no policy printed means accept."""
    try:
        chains = [chain for chain in _chains(text) if chain.hook == "input"]
    except ValueError as error:
        return Missing(f"nft list ruleset: {error}")
    return tuple(
        NftChain(
            chain.family, chain.table, chain.name, chain.policy, tuple(chain.rules),
            tuple(rule for rule in chain.rules if rule.endswith(TAG)),
        )
        for chain in chains
    )  # fmt: skip


def translating(text: str) -> tuple[str, ...]:
    """The chains that translate addresses, or that a container engine keeps, as "ip nat DOCKER"; none of a listing
    that is not understood."""
    try:
        return tuple(
            f"{chain.family} {chain.table} {chain.name}"
            for chain in _chains(text)
            if CONTAINERS.search(f"{chain.table} {chain.name}") or any(map(_TRANSLATES.search, chain.rules))
        )
    except ValueError:
        return ()
