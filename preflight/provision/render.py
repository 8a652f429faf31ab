"""The plan, and what became of it, as a person reads it: hosts that have the same to say are folded. Pure."""

import difflib
import hashlib
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from preflight.model.change import DEVICE_KINDS, Change, Kind, Plan, Risk, StepResult, StepState
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.provision.plan import subject

COLUMNS = 80
_RULES = (Kind.NFT_RULES, Kind.IPTABLES_RULES, Kind.FIREWALLD_RULES, Kind.UFW_RULES)
_DEVICE_COLUMNS = {
    Kind.DEVICE_ADDRESS: "address",
    Kind.DEVICE_GATEWAY: "gateway",
    Kind.DEVICE_DETECT: "detect address",
    Kind.DEVICE_MTU: "MTU",
}
_HOW = {Kind.DEVICE_SAVED: "only the file", Kind.DEVICE_RECOVERY: "restored"}  # else the device is set
_COLUMN_OF = {"address": Kind.DEVICE_ADDRESS, "gateway": Kind.DEVICE_GATEWAY, "netdetect": Kind.DEVICE_DETECT,
              "mtu": Kind.DEVICE_MTU}  # fmt: skip


_RISKS = {Risk.DISTURBING: "may disturb what runs there", Risk.NEEDS_REBOOT: "counts from the next boot on"}


@dataclass(frozen=True)
class Line:
    """One line; `style` is "title", "add", "remove", "pass", "fail", "warn", "dim" or empty, for who can colour."""

    text: str
    style: str = ""


def render(plan: Plan, notes: Sequence[str], *, fold: Callable[[Iterable[str]], str]) -> list[Line]:
    """The plan's diff, then what was left out of it and why. `fold` names a set of hosts: `node[01-16]`.

    Lines stay within 80 columns, except those of files and firewall rules, which are never cut.
    """
    lines: list[Line] = []
    for hosts, changes in _folded(plan):
        count = f" ({len(hosts)} hosts)" if len(hosts) > 1 else ""
        lines.append(Line(f"{fold(hosts)}{count}", "title"))
        for change in changes:
            lines += _of_change(change)
        lines.append(Line(""))
    table = _device_table(plan)
    if table:
        lines += [Line("device NICs", "title"), *table, Line("")]
    for note in notes:
        lines += [Line(text, "warn") for text in _wrapped(note, "! ", "  ")]
    return lines


def _folded(plan: Plan) -> list[tuple[tuple[str, ...], tuple[Change, ...]]]:
    """Hosts grouped by what is done to them; device addresses differ everywhere and have a table of their own."""
    groups: dict[tuple[object, ...], list[str]] = {}
    changes: dict[tuple[object, ...], tuple[Change, ...]] = {}
    for host in plan.hosts:
        here = tuple(change for change in plan.of_host(host) if change.kind not in DEVICE_KINDS)
        if here:
            key = tuple((c.kind, c.target, c.before, c.after, c.risk, c.note) for c in here)
            groups.setdefault(key, []).append(host)
            changes[key] = here
    return [(tuple(hosts), changes[key]) for key, hosts in groups.items()]


def _of_change(change: Change) -> list[Line]:
    whole = change.kind is Kind.FILE  # other targets are there before and after
    sign = "+" if whole and change.before is None else "-" if whole and change.after is None else "~"
    name = f"  {sign} {_printable(subject(change))}"
    if change.kind is Kind.FILE:
        lines = [Line(name), *_file_diff(change.before, change.after)]
    elif change.kind in _RULES:
        lines = [Line(name), *_rules_diff(change.before, change.after)]
    elif change.kind in (Kind.NFT_INPUT, Kind.IPTABLES_INPUT):
        lines = [Line(f"{name}: {'put back' if change.after else 'deleted, with all its rules'}", "remove")]
    else:
        lines = _value(name, change.before, change.after)
    remarks = [_RISKS[change.risk]] if change.risk in _RISKS else []
    remarks += [change.note] if change.note else []
    return lines + [Line(text, "warn") for remark in remarks for text in _wrapped(remark, "      ! ", "        ")]


def _value(name: str, before: str | None, after: str | None) -> list[Line]:
    """`name: before -> after`, on lines of their own where that is too long."""
    old, new = (_printable(value or "nothing") for value in (before, after))
    short = f"{name}: {old} -> {new}"
    if len(short) <= COLUMNS:
        return [Line(short)]
    wrapped = [Line(name)]
    wrapped += [Line(text, "remove") for text in _wrapped(old, "      - ", "        ", comma=True)]
    wrapped += [Line(text, "add") for text in _wrapped(new, "      + ", "        ", comma=True)]
    return wrapped


def _file_diff(before: str | None, after: str | None) -> list[Line]:
    old, new = ((text or "").splitlines(keepends=True) for text in (before, after))
    lines: list[Line] = []
    for text in list(difflib.unified_diff(old, new, n=2))[2:]:  # without the names, which stand above
        style = {"+": "add", "-": "remove", "@": "dim"}.get(text[0], "")
        if text[0] == "@" and (before is None or after is None):
            continue
        lines.append(Line(f"      {_printable(text.removesuffix(chr(10)))}", style))
        if text[0] != "@" and not text.endswith("\n"):
            lines.append(Line("      \\ no newline at the end of the file", "dim"))
    return lines


def _rules_diff(before: str | None, after: str | None) -> list[Line]:
    old, new = ((text or "").splitlines() for text in (before, after))
    return [
        *(Line(f"      - {_printable(rule)}", "remove") for rule in old if rule not in new),
        *(Line(f"      + {_printable(rule)}", "add") for rule in new if rule not in old),
    ]


def _device_table(plan: Plan) -> list[Line]:
    """A line a device: `before -> after`, or only `after` where nothing was set. What is done otherwise than by setting
    the device has lines of its own, in which unchanged values are left out."""
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
    return lines + [Line(text, "warn") for remark in remarks for text in _wrapped(remark, "  ! ", "    ")]


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
    return _printable(f"{before} -> {after}" if before else str(after))


_WELL = (StepState.DONE, StepState.ALREADY)
_WORDS = {
    StepState.MOVED: "somebody changed it meanwhile, so it was left alone",
    StepState.DID_NOT_STICK: "was written without an error, and is not so",
    StepState.FAILED: "failed",
    StepState.NOT_RUN: "not tried, because of the one before",
    StepState.REVERTED: "taken back",
}


def render_results(results: Sequence[StepResult], *, fold: Callable[[Iterable[str]], str]) -> list[Line]:
    """What went well, counted; everything that did not, by name."""
    made = [result for result in results if result.state is StepState.DONE]
    hosts = {result.change.host for result in made}
    lines = [Line(f"{_count(len(made), 'change')} made on {_count(len(hosts), 'host')}", "pass")] if made else []
    already = sum(result.state is StepState.ALREADY for result in results)
    lines += [Line(f"{_count(already, 'change')} not needed: so already")] if already else []
    for names, of_host in _same_end([result for result in results if result.state not in _WELL]):
        first, more = of_host[0], len(of_host) - 1
        what = subject(first.change) + (f" and {_count(more, 'more change')}" if more else "")
        text = first.message.removeprefix(f"{first.change.host}: ")
        state = _WORDS.get(first.state, "")
        words = f"{fold(names)}: {what}: " + (text if first.state is StepState.NOT_RUN and text else state)
        words += f": {text}" if text and first.state is not StepState.NOT_RUN else ""
        if first.found is not None and len(first.found) <= COLUMNS and "\n" not in first.found:
            words += f"; found {first.found or 'nothing'}"
        style = "dim" if first.state is StepState.NOT_RUN else "fail"
        lines += [Line(line, style) for line in _wrapped(words, "", "  ")]
    return lines


def _same_end(results: Iterable[StepResult]) -> list[tuple[list[str], list[StepResult]]]:
    """Results of a host that ended alike, put together; then hosts of which the same is to be said."""
    by_host: dict[tuple[str, StepState, str | None, str], list[StepResult]] = {}
    for result in results:
        text = result.message.removeprefix(f"{result.change.host}: ")
        by_host.setdefault((result.change.host, result.state, result.found, text), []).append(result)
    alike: dict[tuple[object, ...], list[str]] = {}
    examples: dict[tuple[object, ...], list[StepResult]] = {}
    for (host, *end), of_host in by_host.items():
        key = (*end, *(subject(result.change) for result in of_host))
        alike.setdefault(key, []).append(host)
        examples[key] = of_host
    return [(hosts, examples[key]) for key, hosts in alike.items()]


def render_fixed(
    before: Sequence[Finding],
    after: Sequence[Finding],
    titles: Mapping[str, str],
    *,
    fold: Callable[[Iterable[str]], str],
) -> list[Line]:
    """A line for each check that complained before and has nothing more to say: which hosts it is fixed on."""
    good, bad = (Outcome.PASS, Outcome.SKIP), (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)
    still = {(finding.check, finding.host) for finding in after if finding.outcome in bad}
    now = {(finding.check, finding.host) for finding in after if finding.outcome in good} - still
    fixed: dict[str, list[str]] = {}
    for check, host in dict.fromkeys((f.check, f.host) for f in before if f.outcome in bad):
        if host is not None and (check, host) in now:
            fixed.setdefault(check, []).append(host)
    return [
        Line(line, "pass")
        for check, names in sorted(fixed.items())
        for line in _wrapped(f"fixed   {check}  {titles.get(check, '')} ({fold(names)})", "", "                ")
    ]


def stale(result: StepResult) -> str:
    """The sentence about a change whose target somebody has changed since it was planned."""
    change = result.change
    values = (_short_value(value) for value in (change.before, change.after, result.found))
    return "{}: {}: expected {} (or {} already), found {}".format(change.host, subject(change), *values)


def _short_value(value: str | None) -> str:
    """A value on one line; of a long one the beginning, with what tells it from others of its length."""
    if value is None:
        return "nothing"
    text = " ".join(value.split())
    if len(text) <= COLUMNS:
        return repr(text)
    return f"{text[:COLUMNS]!r}… ({len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()[:12]})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _printable(text: str) -> str:
    """Host output made harmless for a terminal; a tab is a blank, as columns matter here."""
    return "".join(c if c.isprintable() else " " if c == "\t" else f"\\x{_code(c):02x}" for c in text)


def _code(char: str) -> int:
    """Bytes that are no UTF-8 travel as U+10FF80 to U+10FFFF (preflight/remote/collect); they are shown as bytes."""
    code = ord(char)
    return code - 0x10FF00 if code >= 0x10FF80 else code


def _wrapped(text: str, first: str, rest: str, *, comma: bool = False) -> list[str]:
    """`text` within 80 columns; port lists are broken after commas."""
    words = _printable(text)
    lines = textwrap.wrap(
        words.replace(",", ", ") if comma else words,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(", ", ",") for line in lines] if comma else lines
