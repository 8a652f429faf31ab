"""Output of `nft list ruleset`.

Base chains with hook input decide on incoming packets. Chains that translate addresses, or that containers need, decide
whether the firewall may be switched off.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from preflight.facts.sections.firewall import NftChain
from preflight.facts.types import Missing
from preflight.model.text import quote

# A rule of preflight: its comment, and the form of its rules (also in remote/apply/nftables.py). A rule with this
# comment in any other form is the site's.
_OURS = re.compile(
    r"ip6? saddr (?:\{ [0-9a-fA-F.:/, ]+ \}|[0-9a-fA-F.:/]+) tcp dport (?:\{ [0-9, -]+ \}|[0-9-]+) accept "
    r'comment "preflight"'
)
_TABLE = re.compile(r"table (\w{1,10}) (\S{1,200}) \{")
_CHAIN = re.compile(r"chain (\S{1,200}) \{")
_HOOK = re.compile(r"type \w+ hook (\w+) (?:devices? .*? )?priority [^;]{1,60};(?: policy (\w+);)?")
_STRING = re.compile(r'"[^"]*"')
_DROP = re.compile(r"(?<![-\w.@])(?:drop|reject)(?![-\w.])")
_JUMP = re.compile(r"\b(?:jump|goto) ([\w.-]{1,200})")
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
    """Return how many braces the line opens, negative if it closes some. Braces in strings do not count."""
    bare = _STRING.sub("", line)
    return bare.count("{") - bare.count("}")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their depth in braces. Raises ValueError if a brace is still open at the end."""
    depth = 0
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            yield depth, line
            depth += _depth(line)
    if depth != 0:
        raise ValueError("the listing is cut off")


def _family_and_name(line: str) -> tuple[str, str]:
    match = _TABLE.fullmatch(line)
    if not match:
        raise ValueError(f"{quote(line)} is not recognized")
    return match.group(1), match.group(2)


def _chains(text: str) -> Iterator[_Chain]:
    """Yield every chain. Raises ValueError with a sentence for text that nft does not print."""
    table = ("", "")
    chain: _Chain | None = None
    for depth, line in _lines(text):
        if depth == 0:
            table = _family_and_name(line)
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


def is_ours(rule: str) -> bool:
    """Return whether preflight made the rule."""
    return _OURS.fullmatch(rule) is not None


def ruleset(text: str) -> tuple[NftChain, ...] | Missing:
    """Return the base chains with hook input, with their rules as nft prints them; no policy printed means accept."""
    try:
        chains = [chain for chain in _chains(text) if chain.hook == "input"]
    except ValueError as error:
        return Missing(f"nft list ruleset: {error}")
    return tuple(map(_with_ours, chains))


def _with_ours(chain: _Chain) -> NftChain:
    ours = tuple(filter(is_ours, chain.rules))
    return NftChain(chain.family, chain.table, chain.name, chain.policy, tuple(chain.rules), ours)


def unjudged(text: str) -> tuple[str, ...]:
    """Return the base chains that drop packets before any chain of hook input, as "netdev guard early (hook ingress)".

    Chains that they jump to count, too. A listing that is not recognized has none. firewalld's own chain is left out,
    because it drops only packets from senders that cannot be answered.
    """
    try:
        chains = {(chain.family, chain.table, chain.name): chain for chain in _chains(text)}
    except ValueError:
        return ()
    return tuple(
        f"{chain.family} {chain.table} {chain.name} (hook {chain.hook})"
        for chain in chains.values()
        if chain.hook in ("prerouting", "ingress") and chain.table != "firewalld"
        if any(target.policy == "drop" or any(map(_drops, target.rules)) for target in _reached(chain, chains))
    )


def _drops(rule: str) -> bool:
    return _DROP.search(_STRING.sub("", rule)) is not None


def _reached(chain: _Chain, chains: Mapping[tuple[str, str, str], _Chain]) -> list[_Chain]:
    """Return the chain and those that it jumps to, directly or not."""
    chains_, names = [chain], {chain.name}
    for member in chains_:  # grows in the loop
        for name in (name for rule in member.rules for name in _JUMP.findall(_STRING.sub("", rule))):
            target = chains.get((chain.family, chain.table, name))
            if target and name not in names:
                names.add(name)
                chains_.append(target)
    return chains_


def translating(text: str) -> tuple[str, ...]:
    """Return the chains that translate addresses, or that a container engine keeps, as "ip nat DOCKER".

    A listing that is not recognized has none.
    """
    try:
        return tuple(
            f"{chain.family} {chain.table} {chain.name}"
            for chain in _chains(text)
            if CONTAINERS.search(f"{chain.table} {chain.name}") or any(map(_TRANSLATES.search, chain.rules))
        )
    except ValueError:
        return ()
