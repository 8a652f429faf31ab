"""Output of `iptables -S INPUT`, and files of `iptables-save` for the next boot.

The chain INPUT of the table `filter` decides on incoming packets. The chains of the table `nat` are read, too.
"""

import re
from collections.abc import Iterable

from preflight.facts.sections.firewall import IptablesChain
from preflight.facts.types import Missing
from preflight.model.text import quote

# A rule of preflight: its comment, and the form of its rules (also in remote/apply/iptables.py). A rule with this
# comment in any other form is the site's.
_OURS = re.compile(
    r"-s [0-9a-fA-F.:]{2,45}(?:/\d{1,3})? -p tcp -m multiport --dports [0-9,:]{1,200} "
    r'-m comment --comment "?preflight"? -j ACCEPT'
)
_KNOWN = re.compile(r"#.*|\*\w+|COMMIT|:\S+ \S+.*|-[PNA] .*")
_COUNTERS = re.compile(r"\[\d{1,20}:\d{1,20}\] ")
_POLICY = re.compile(r"(?:-P |:)INPUT (\w{1,20})(?: \[.*\])?")
_RULE = re.compile(r"-A INPUT (.+)")
_IN_NAT = re.compile(r"-A (\S{1,40}) .*-j (?:MASQUERADE|[SD]NAT|NETMAP|REDIRECT)\b.*|-N (\S{1,40})")


def is_ours(rule: str) -> bool:
    """Return whether preflight made the rule, which is without `-A INPUT`."""
    return _OURS.fullmatch(rule) is not None


def chain(text: str, program: str = "iptables-nft") -> IptablesChain | Missing:
    """Parse the chain INPUT of `iptables -S INPUT`, of `iptables-save`, or of a file that it wrote."""
    lines = [_COUNTERS.sub("", line.strip(), count=1) for line in text.splitlines() if line.strip()]
    if unknown_line := next((line for line in lines if not _KNOWN.fullmatch(line)), None):
        return Missing(f"iptables: {quote(unknown_line)} is not recognized")
    filter_lines = list(_filter_table(lines))
    policies = ["ACCEPT", *(match[1] for match in filter(None, map(_POLICY.fullmatch, filter_lines)))]
    policy = "accept" if policies[-1] == "ACCEPT" else "drop"
    rules = tuple(match[1] for match in filter(None, map(_RULE.fullmatch, filter_lines)))
    return IptablesChain(program, policy, rules, tuple(filter(is_ours, rules)))


def _filter_table(lines: Iterable[str]) -> Iterable[str]:
    """Yield the lines of the table `filter`. `iptables -S` names no table, and prints no other."""
    table = "filter"
    for line in lines:
        if line.startswith("*"):
            table = line[1:]
        elif table == "filter":
            yield line


def translating(text: str, program: str) -> tuple[str, ...]:
    """Return the chains of `iptables -t nat -S` that translate addresses or were added, with the program."""
    names = (match[1] or match[2] for line in text.splitlines() if (match := _IN_NAT.fullmatch(line.strip())))
    return tuple(f"{program} nat {name}" for name in dict.fromkeys(names))
