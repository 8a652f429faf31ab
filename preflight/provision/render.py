"""Text of a plan, for people; hosts with the same changes are folded. Pure."""

import difflib
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from preflight.grouping import grouped
from preflight.model.change import DEVICE_KINDS, Change, Kind, Plan, Risk
from preflight.model.text import printable_columns
from preflight.provision.plan import subject

COLUMNS = 80
HCCN_CONF = "/etc/hccn.conf"
_RULES = (Kind.NFT_RULES, Kind.IPTABLES_RULES, Kind.FIREWALLD_RULES, Kind.FIREWALLD_PERMANENT, Kind.UFW_RULES)
_DEVICE_COLUMNS = {
    Kind.DEVICE_ADDRESS: "address",
    Kind.DEVICE_GATEWAY: "gateway",
    Kind.DEVICE_DETECT: "detect address",
    Kind.DEVICE_MTU: "MTU",
}
_HOW = {Kind.DEVICE_SAVED: "only the file", Kind.DEVICE_RECOVERY: "restored"}  # else the device is set
_COLUMN_OF = {
    "address": Kind.DEVICE_ADDRESS,
    "gateway": Kind.DEVICE_GATEWAY,
    "netdetect": Kind.DEVICE_DETECT,
    "mtu": Kind.DEVICE_MTU,
}

# File → the values in it that every host has its own of.
_OWN = {
    HCCN_CONF: re.compile(r"(?m)^((?:address|gateway|netdetect)_\d+)=.*"),
    "/etc/preflight/gate.json": re.compile(r'(?m)^(  "(?:host|config|expect)"): .*'),
}
_RISKS = {Risk.DISTURBING: "may disturb running programs", Risk.NEEDS_REBOOT: "takes effect at the next boot"}


@dataclass(frozen=True)
class PlanLine:
    """One line. `style`, for colours: "title", "add", "remove", "pass", "fail", "warn", "dim" or empty."""

    text: str
    style: str = ""


def render(
    plan: Plan, notes: Sequence[str], *, fold: Callable[[Iterable[str]], str], whole: bool = False
) -> list[PlanLine]:
    """Return the plan's diff, then the changes that were left out and why.

    `fold` names a set of hosts: `node[01-16]`. `whole`: files in full, not only the lines that differ.

    Lines stay within 80 columns, except those of files and firewall rules, which are never cut.
    """
    lines: list[PlanLine] = []
    for hosts, changes in _folded(plan):
        count = f" ({len(hosts)} hosts)" if len(hosts) > 1 else ""
        lines.append(PlanLine(f"{fold(hosts)}{count}", "title"))
        for change in changes:
            lines += _of_change(change, whole=whole)
        lines.append(PlanLine(""))
    table = _device_table(plan)
    if table:
        lines += [PlanLine("device NICs", "title"), *table, PlanLine("")]
    return lines + _warnings(notes, "! ", "  ")


def totals(plan: Plan) -> str:
    """Return the number of changes, and how many of them disturb something or need a reboot."""
    changes, hosts = len(plan.changes), len(plan.hosts)
    risks = Counter(change.risk for change in plan.changes)
    reboots = risks[Risk.NEEDS_REBOOT]
    return (
        f"{changes} change{'' if changes == 1 else 's'} on {hosts} host{'' if hosts == 1 else 's'}, "
        f"{risks[Risk.DISTURBING]} disturbing, {reboots} need{'s' if reboots == 1 else ''} a reboot"
    )


def _folded(plan: Plan) -> list[tuple[tuple[str, ...], tuple[Change, ...]]]:
    """Group hosts by their changes; device addresses differ everywhere and have a separate table."""
    of_hosts = grouped((change.host, change) for change in plan.changes if change.kind not in DEVICE_KINDS)
    groups = grouped((tuple(map(_key, changes)), host) for host, changes in of_hosts.items())
    return [(tuple(hosts), tuple(_for_all([of_hosts[host] for host in hosts]))) for hosts in groups.values()]


def _key(change: Change) -> tuple[object, ...]:
    """Return all of a change but its host and the values that every host has its own of."""
    values, own = (change.before, change.after), _OWN.get(change.target)
    shape = tuple(value and own.sub(r"\1", value) for value in values) if own else values
    return change.kind, change.target, shape, change.risk, change.note


def _for_all(of_hosts: Sequence[Sequence[Change]]) -> Iterator[Change]:
    """Yield the first host's changes, with a note where other hosts have other addresses."""
    for first, *other_changes in zip(*of_hosts, strict=True):
        if any((change.before, change.after) != (first.before, first.after) for change in other_changes):
            note = f"shown for {first.host}; the others get their own addresses"
            yield replace(first, note="; ".join(filter(None, (note, first.note))))
        else:
            yield first


def _of_change(change: Change, *, whole: bool) -> list[PlanLine]:
    name = f"  {_sign(change)} {printable_columns(subject(change))}"
    remarks = (_RISKS.get(change.risk, ""), change.note)
    return [*_diff(change, name, whole=whole), *_warnings(remarks, "      ! ", "        ")]


def _sign(change: Change) -> str:
    if change.kind not in (Kind.FILE, Kind.PROGRAM):  # other targets exist before and after
        return "~"
    return "+" if change.before is None else "-" if change.after is None else "~"


def _diff(change: Change, name: str, *, whole: bool) -> list[PlanLine]:
    """Return the change's line or lines, `name` first."""
    if change.kind is Kind.FILE:
        return [PlanLine(name), *file_diff(change.before, change.after, whole=whole)]
    if change.kind is Kind.PROGRAM:
        size = len((change.after or change.before or "").encode("utf-8", "replace")) / 1024  # too long to be shown
        return [PlanLine(f"{name}: a program of {size:.0f} KiB, mode 0755")]
    if change.kind in _RULES:
        return [PlanLine(name), *_rules_diff(change.before, change.after)]
    if change.kind is Kind.NFT_INPUT:
        return _chain(name, "deleted, with all its rules", change.after)
    if change.kind is Kind.IPTABLES_INPUT:
        return _chain(name, "emptied, policy ACCEPT", change.after)
    return _value(name, change.before, change.after)


def _chain(name: str, opened: str, after: str | None) -> list[PlanLine]:
    """Return the lines for a chain as a whole: `opened`, or all the lines with which it is restored."""
    text = (after or "").splitlines()
    return [
        PlanLine(f"{name}: {'restored' if after else opened}", "remove"),
        *(PlanLine(f"      +{printable_columns(line)}", "add") for line in text),
    ]


def _value(name: str, before: str | None, after: str | None) -> list[PlanLine]:
    """Return `name: before -> after`, on separate lines if that is too long."""
    old, new = (printable_columns(value or "nothing") for value in (before, after))
    short = f"{name}: {old} -> {new}"
    if len(short) <= COLUMNS:
        return [PlanLine(short)]
    lines = [PlanLine(name)]
    lines += [PlanLine(text, "remove") for text in wrapped(old, "      - ", "        ", comma=True)]
    lines += [PlanLine(text, "add") for text in wrapped(new, "      + ", "        ", comma=True)]
    return lines


def file_diff(before: str | None, after: str | None, *, whole: bool = False) -> list[PlanLine]:
    """Return the lines that differ, with those around them; `whole`: all lines."""
    old, new = ((text or "").splitlines(keepends=True) for text in (before, after))
    lines: list[PlanLine] = []
    for text in list(difflib.unified_diff(old, new, n=len(old) + len(new) if whole else 2))[
        2:
    ]:  # without the names, which are above
        style = {"+": "add", "-": "remove", "@": "dim"}.get(text[0], "")
        if text[0] == "@" and (before is None or after is None):
            continue
        lines.append(PlanLine(f"      {printable_columns(text.removesuffix(chr(10)))}", style))
        if text[0] != "@" and not text.endswith("\n"):
            lines.append(PlanLine("      \\ no newline at the end of the file", "dim"))
    return lines


def _rules_diff(before: str | None, after: str | None) -> list[PlanLine]:
    old, new = ((text or "").splitlines() for text in (before, after))
    return [
        *(PlanLine(f"      - {printable_columns(rule)}", "remove") for rule in old if rule not in new),
        *(PlanLine(f"      + {printable_columns(rule)}", "add") for rule in new if rule not in old),
    ]


def _device_table(plan: Plan) -> list[PlanLine]:
    """Return a line for each device: `before -> after`, or only `after` if nothing was set.

    Changes that do more or less than set the device have separate lines, in which unchanged values are left out.
    """
    rows: dict[tuple[str, str, str], dict[Kind, str]] = {}
    remarks: dict[str, None] = {}  # in order, each once
    for change in plan.changes:
        if change.device is not None:
            row = (change.host, str(change.device), _HOW.get(change.kind, ""))
            rows.setdefault(row, {}).update(_cells(change))
            remarks[change.note] = None
    set_kinds = set().union(*rows.values())
    columns = {kind: title for kind, title in _DEVICE_COLUMNS.items() if kind in set_kinds}
    if not columns:
        return []
    table = [["host", "device", *columns.values(), ""]]
    for (host, device, how), cells in rows.items():
        table.append([host, device, *(cells.get(kind, "") for kind in columns), how])
    header, *lines = _aligned(table)
    return [PlanLine(header, "dim"), *map(PlanLine, lines), *_warnings(remarks, "  ! ", "    ")]


def _aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of a table as lines, with its columns below each other."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _warnings(remarks: Iterable[str], first: str, indent: str) -> list[PlanLine]:
    return [PlanLine(text, "warn") for remark in remarks if remark for text in wrapped(remark, first, indent)]


def _cells(change: Change) -> dict[Kind, str]:
    if change.kind not in _HOW:
        return {change.kind: _cell(change.before, change.after)}
    before, after = ((value or "").split() for value in (change.before, change.after))
    return {
        _COLUMN_OF[key]: _cell(None if old == "none" else old, new)
        for key, old, new in zip(after[::2], before[1::2], after[1::2], strict=False)
        if old != new
    }


def _cell(before: str | None, after: str | None) -> str:
    return printable_columns(f"{before} -> {after}" if before else str(after))


def wrapped(text: str, first: str, indent: str, *, comma: bool = False) -> list[str]:
    """Return `text` within 80 columns; port lists are broken after commas."""
    words = printable_columns(text)
    lines = textwrap.wrap(
        words.replace(",", ", ") if comma else words,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(", ", ",") for line in lines] if comma else lines
