"""Text of a plan, for people; hosts with the same changes are folded. Pure."""

import difflib
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from preflight.model.change import DEVICE_KINDS, Change, Kind, Plan, Risk
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
_RISKS = {Risk.DISTURBING: "may disturb what runs there", Risk.NEEDS_REBOOT: "counts from the next boot on"}


@dataclass(frozen=True)
class Line:
    """One line. `style`, for colours: "title", "add", "remove", "pass", "fail", "warn", "dim" or empty."""

    text: str
    style: str = ""


def render(
    plan: Plan, notes: Sequence[str], *, fold: Callable[[Iterable[str]], str], whole: bool = False
) -> list[Line]:
    """Return the plan's diff, then the changes that were left out and why.

    `fold` names a set of hosts: `node[01-16]`. `whole`: files in full, not only the lines that differ.

    Lines stay within 80 columns, except those of files and firewall rules, which are never cut.
    """
    lines: list[Line] = []
    for hosts, changes in _folded(plan):
        count = f" ({len(hosts)} hosts)" if len(hosts) > 1 else ""
        lines.append(Line(f"{fold(hosts)}{count}", "title"))
        for change in changes:
            lines += _of_change(change, whole=whole)
        lines.append(Line(""))
    table = _device_table(plan)
    if table:
        lines += [Line("device NICs", "title"), *table, Line("")]
    for note in notes:
        lines += [Line(text, "warn") for text in wrapped(note, "! ", "  ")]
    return lines


def _folded(plan: Plan) -> list[tuple[tuple[str, ...], tuple[Change, ...]]]:
    """Group hosts by their changes; device addresses differ everywhere and have a separate table."""
    of_hosts: dict[str, list[Change]] = {}
    for change in plan.changes:
        if change.kind not in DEVICE_KINDS:
            of_hosts.setdefault(change.host, []).append(change)
    groups: dict[tuple[object, ...], list[str]] = {}
    for host, changes in of_hosts.items():
        key = tuple((c.kind, c.target, *_shape(c), c.risk, c.note) for c in changes)
        groups.setdefault(key, []).append(host)
    return [(tuple(hosts), tuple(_for_all([of_hosts[host] for host in hosts]))) for hosts in groups.values()]


def _shape(change: Change) -> tuple[str | None, ...]:
    """Return before and after, without the values that every host has its own of."""
    values, own = (change.before, change.after), _OWN.get(change.target)
    return tuple(value and own.sub(r"\1", value) for value in values) if own else values


def _for_all(of_hosts: Sequence[Sequence[Change]]) -> Iterator[Change]:
    """Yield the first host's changes, with a note where other hosts have other addresses."""
    for first, *other_changes in zip(*of_hosts, strict=True):
        if any((change.before, change.after) != (first.before, first.after) for change in other_changes):
            note = f"so on {first.host}; on the others with their own addresses"
            yield replace(first, note="; ".join(filter(None, (note, first.note))))
        else:
            yield first


def _of_change(change: Change, *, whole: bool) -> list[Line]:
    is_file = change.kind in (Kind.FILE, Kind.PROGRAM)  # other targets exist before and after
    sign = "+" if is_file and change.before is None else "-" if is_file and change.after is None else "~"
    name = f"  {sign} {printable(subject(change))}"
    if change.kind is Kind.FILE:
        lines = [Line(name), *file_diff(change.before, change.after, whole=whole)]
    elif change.kind is Kind.PROGRAM:
        size = len((change.after or change.before or "").encode("utf-8", "replace")) / 1024  # too long to be shown
        lines = [Line(f"{name}: a program of {size:.0f} KiB, mode 0755")]
    elif change.kind in _RULES:
        lines = [Line(name), *_rules_diff(change.before, change.after)]
    elif change.kind is Kind.NFT_INPUT:
        lines = _chain(name, "deleted, with all its rules", change.after)
    elif change.kind is Kind.IPTABLES_INPUT:
        lines = _chain(name, "emptied; its policy: ACCEPT", change.after)
    else:
        lines = _value(name, change.before, change.after)
    remarks = [_RISKS[change.risk]] if change.risk in _RISKS else []
    remarks += [change.note] if change.note else []
    return lines + [Line(text, "warn") for remark in remarks for text in wrapped(remark, "      ! ", "        ")]


def _chain(name: str, opened: str, after: str | None) -> list[Line]:
    """Return the lines for a chain as a whole: `opened`, or all the lines with which it is restored."""
    text = (after or "").splitlines()
    return [
        Line(f"{name}: {'put back' if after else opened}", "remove"),
        *(Line(f"      +{printable(line)}", "add") for line in text),
    ]


def _value(name: str, before: str | None, after: str | None) -> list[Line]:
    """Return `name: before -> after`, on separate lines if that is too long."""
    old, new = (printable(value or "nothing") for value in (before, after))
    short = f"{name}: {old} -> {new}"
    if len(short) <= COLUMNS:
        return [Line(short)]
    lines = [Line(name)]
    lines += [Line(text, "remove") for text in wrapped(old, "      - ", "        ", comma=True)]
    lines += [Line(text, "add") for text in wrapped(new, "      + ", "        ", comma=True)]
    return lines


def file_diff(before: str | None, after: str | None, *, whole: bool = False) -> list[Line]:
    """Return the lines that differ, with those around them; `whole`: all lines."""
    old, new = ((text or "").splitlines(keepends=True) for text in (before, after))
    lines: list[Line] = []
    for text in list(difflib.unified_diff(old, new, n=len(old) + len(new) if whole else 2))[
        2:
    ]:  # without the names, which are above
        style = {"+": "add", "-": "remove", "@": "dim"}.get(text[0], "")
        if text[0] == "@" and (before is None or after is None):
            continue
        lines.append(Line(f"      {printable(text.removesuffix(chr(10)))}", style))
        if text[0] != "@" and not text.endswith("\n"):
            lines.append(Line("      \\ no newline at the end of the file", "dim"))
    return lines


def _rules_diff(before: str | None, after: str | None) -> list[Line]:
    old, new = ((text or "").splitlines() for text in (before, after))
    return [
        *(Line(f"      - {printable(rule)}", "remove") for rule in old if rule not in new),
        *(Line(f"      + {printable(rule)}", "add") for rule in new if rule not in old),
    ]


def _device_table(plan: Plan) -> list[Line]:
    """Return a line for each device: `before -> after`, or only `after` if nothing was set.

    Changes that do more or less than set the device have separate lines, in which unchanged values are left out.
    """
    rows: dict[tuple[str, int, str], dict[Kind, str]] = {}
    remarks: dict[str, None] = {}
    for change in plan.changes:
        if change.device is not None:
            rows.setdefault((change.host, change.device, _HOW.get(change.kind, "")), {}).update(_cells(change))
            if change.note:
                remarks[change.note] = None
    kinds = [kind for kind in _DEVICE_COLUMNS if any(kind in cells for cells in rows.values())]
    if not kinds:
        return []
    table = [["host", "device", *(_DEVICE_COLUMNS[kind] for kind in kinds), ""]]
    for (host, device, how), cells in rows.items():
        table.append([host, str(device), *(cells.get(kind, "") for kind in kinds), how])
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [
        Line("  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        for row in table
    ]
    lines[0] = Line(lines[0].text, "dim")
    return lines + [Line(text, "warn") for remark in remarks for text in wrapped(remark, "  ! ", "    ")]


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
    return printable(f"{before} -> {after}" if before else str(after))


def printable(text: str) -> str:
    """Return host output made harmless for a terminal; a tab becomes a blank, as columns matter here."""
    return "".join(c if c.isprintable() else " " if c == "\t" else f"\\x{_code(c):02x}" for c in text)


def _code(char: str) -> int:
    """Return a character's code; of a byte that is no UTF-8, the byte.

    Such bytes travel as U+10FF80 to U+10FFFF (preflight/remote/collect).
    """
    code = ord(char)
    return code - 0x10FF00 if code >= 0x10FF80 else code


def wrapped(text: str, first: str, rest: str, *, comma: bool = False) -> list[str]:
    """Return `text` within 80 columns; port lists are broken after commas."""
    words = printable(text)
    lines = textwrap.wrap(
        words.replace(",", ", ") if comma else words,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(", ", ",") for line in lines] if comma else lines
