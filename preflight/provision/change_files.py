"""Rules for the text that preflight writes to files of hosts. Pure.

Each function returns whether `after` is the text that preflight writes where `before` was.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from preflight.facts.parsers.linux.sysctl import intended_ports, settings
from preflight.model.ip import is_address
from preflight.model.ports import PortSet
from preflight.provision.change_values import ADDRESS, CHAIN, IPTABLES_RULE, NFT_RULE, is_ports, is_rule
from preflight.rules.firewall.dialects import iptables
from preflight.rules.firewall.persistent_rules import own_file as nft_own_file
from preflight.rules.firewall.persistent_rules import with_include
from preflight.rules.setup_files import BEGIN, END, MARK, ours, with_block, with_others
from preflight.rules.sysctl.reserved_ports import own_file as sysctl_own_file
from preflight.rules.sysctl.reserved_ports import with_value

# The values of memlock (KiB) and nofile that an inventory may ask for: preflight/inventory/fields.py.
_LIMIT = re.compile(r"(?:\*|root) (?:soft|hard) (memlock|nofile) (unlimited|[1-9][0-9]{0,18})")
_NOFILE = range(1024, 2**31 + 1)
_EXPORT = re.compile(r"export HCCL_[A-Z0-9_]{1,100}='(?:[^'\n\0]|'\\''){0,4096}'")
_HOST_LINE = re.compile(rf"{ADDRESS}(?:[ \t]+[A-Za-z0-9][\w.-]{{0,252}}){{1,8}}", re.ASCII)
_INSERTED = re.compile(r"insert rule ((?:ip|ip6|inet) \S+ \S+) (.+)")


def sets_ports(before: str | None, after: str | None) -> bool:
    value, earlier = _last_value(after), _last_value(before)
    if value is None or not is_ports(value):
        return False
    ports = PortSet.parse(value)
    is_complete = earlier is None or (intended_ports(earlier) or PortSet()) <= ports
    return is_complete and after in (sysctl_own_file(ports), with_value(before or "", ports))


def _last_value(text: str | None) -> str | None:
    """Return the value of the last line for the key; None where there is no such line."""
    lines = settings(text or "")
    return (lines[-1].value or "") if lines else None


def has_block(before: str | None, after: str | None) -> bool:
    lines = (after or "").splitlines()
    block = lines[lines.index(BEGIN) + 1 : lines.index(END)] if BEGIN in lines and END in lines else []
    try:
        return all(map(_is_host_line, block)) and after == with_block(before or "", block)
    except ValueError:
        return False


@lru_cache(8192)  # hosts have the same lines
def _is_host_line(line: str) -> bool:
    return _HOST_LINE.fullmatch(line) is not None and is_address(line.split()[0])


def is_limit(line: str) -> bool:
    match = _LIMIT.fullmatch(line)
    return match is not None and (match[1] == "memlock" or (match[2].isdigit() and int(match[2]) in _NOFILE))


def is_export(line: str) -> bool:
    return _EXPORT.fullmatch(line) is not None


def own_lines(is_line: Callable[[str], bool], own: re.Pattern[str]) -> Callable[[str | None, str | None], bool]:
    """Return a predicate for a file of ours: a comment, lines that pass `is_line`, then text that others have added.

    `own`: the form of lines that are ours, of any version.
    """

    def is_own(before: str | None, after: str | None) -> bool:
        foreign_text = with_others(before, None, own) or ""
        text = after or ""
        if not text.endswith(foreign_text):
            return False
        part = text.removesuffix(foreign_text)
        if not part:
            return ours(before) and (after is None or bool(foreign_text))
        return _is_our_part(part, is_line)

    return is_own


def _is_our_part(part: str, is_line: Callable[[str], bool]) -> bool:
    first, *lines = part.split("\n")[:-1] or [""]
    is_comment = first.startswith(f"{MARK}: ") and first.isprintable()
    return part.endswith("\n") and is_comment and all(map(is_line, lines))


def includes_ours(before: str | None, after: str | None) -> bool:
    return after == with_include(before or "")


def inserts_rules(before: str | None, after: str | None) -> bool:
    header = nft_own_file({})
    foreign_text = nft_own_file({}, before).removeprefix(header)
    if after is None or not after.startswith(header) or not after.endswith(foreign_text):
        return False
    part = after.removeprefix(header).removesuffix(foreign_text)
    lines = [_INSERTED.fullmatch(line) for line in part.split("\n")[:-1]]
    return (part == "" or part.endswith("\n")) and all(
        line is not None and CHAIN.fullmatch(line[1]) is not None and is_rule(line[2], NFT_RULE) for line in lines
    )


def saves_rules(before: str | None, after: str | None) -> bool:
    if before is None or after is None:
        return False
    rules = [line.partition("-A INPUT ")[2] for line in after.splitlines() if "-A INPUT " in line]
    return after == iptables.with_rules(before, [rule for rule in rules if is_rule(rule, IPTABLES_RULE)])
