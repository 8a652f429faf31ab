"""The Report as lines of text: pure, folded over hosts and devices, at most 80 columns where words allow it."""

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from preflight.model.finding import Finding
from preflight.model.outcome import Outcome, overall
from preflight.model.ports import PortSet
from preflight.model.report import Report

_HOST, _DEVICE = "\0", "\1"  # stand for a finding's own host and device while findings are compared

LINES_A_CHECK = 8  # folded findings shown of one check; the rest is counted


@dataclass(frozen=True)
class Line:
    """One line; `style` is an outcome's value, "title", "dim" or "next", for those who can colour."""

    text: str
    style: str = ""


def printable(text: str) -> str:
    """Host output made harmless: control and escape characters shown as \\xNN, newlines as spaces."""
    return "".join(c if c.isprintable() else " " if c in "\n\r\t" else f"\\x{ord(c):02x}" for c in text)


@dataclass(frozen=True)
class _Group:
    """Findings that say the same thing of several hosts or devices."""

    first: Finding
    summary: str
    hosts: tuple[str, ...]
    devices: tuple[int, ...]


def _without_subject(finding: Finding) -> str:
    """The summary with this finding's own host and device taken out, so that equal statements compare equal."""
    text = finding.summary
    if finding.host:
        text = re.sub(rf"\b{re.escape(finding.host)}\b:?\s*", _HOST, text)
    if finding.device is not None:
        text = re.sub(rf"\bdevice {finding.device}\b", _DEVICE, text)
    return text


def _folded(findings: Iterable[Finding]) -> list[_Group]:
    """Fold over devices of a host first, then over hosts that then say the same."""
    by_host: dict[tuple[str | None, Outcome, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        by_host[finding.host, finding.outcome, _without_subject(finding)].append(finding)
    groups: dict[tuple[Outcome, str, tuple[int, ...]], list[Finding]] = defaultdict(list)
    for (_, outcome, text), same in by_host.items():
        devices = tuple(sorted({finding.device for finding in same if finding.device is not None}))
        groups[outcome, text, devices].append(same[0])
    result = []
    for (_, text, devices), same in groups.items():
        hosts = tuple(finding.host for finding in same if finding.host is not None)
        noun = "device" if len(devices) == 1 else "devices"
        listed = str(PortSet.of((device, device) for device in devices))
        result.append(_Group(same[0], text.replace(_HOST, "").replace(_DEVICE, f"{noun} {listed}"), hosts, devices))
    return sorted(result, key=lambda group: list(Outcome).index(group.first.outcome))


def _severity(findings: Iterable[Finding]) -> int:
    return list(Outcome).index(overall(finding.outcome for finding in findings))


def _wrap(text: str, indent: str, width: int) -> list[str]:
    return textwrap.wrap(
        printable(text), width, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _group_lines(group: _Group, fold: Callable[[Iterable[str]], str], width: int) -> list[Line]:
    subject = f"{fold(group.hosts)}: " if group.hosts else ""
    lines = [Line(text, group.first.outcome.value) for text in _wrap(subject + group.summary, "    ", width)]
    first = group.first
    single = len(group.hosts) <= 1 and len(group.devices) <= 1
    if single and (first.expected or first.found):
        wanted = f"expected {first.expected}" if first.expected else ""
        seen = f"found {first.found}" if first.found else ""
        lines += [Line(text, "dim") for text in _wrap("; ".join(filter(None, (wanted, seen))), "      ", width)]
    if first.cause:
        lines += [Line(text, "dim") for text in _wrap(f"likely: {first.cause}", "      ", width)]
    if single:
        lines += [Line(f"      | {printable(text)[: width - 8]}", "dim") for text in first.evidence[:3]]
    return lines


def _check_lines(
    check: str, title: str, findings: Sequence[Finding], fold: Callable[[Iterable[str]], str], width: int
) -> list[Line]:
    verdict = overall(finding.outcome for finding in findings)
    lines = [Line(f"{verdict.value.upper():<8}{check}  {title}", verdict.value)]
    groups = _folded(findings)
    remedies: list[str] = []
    for group in groups[:LINES_A_CHECK]:
        lines += _group_lines(group, fold, width)
        if group.first.remedy and group.first.remedy not in remedies:
            remedies.append(group.first.remedy)
    if len(groups) > LINES_A_CHECK:
        lines.append(Line(f"    … and {len(groups) - LINES_A_CHECK} more like these (-o json has them all)", "dim"))
    for remedy in remedies[:3]:
        wrapped = _wrap(remedy, "       ", width)
        lines += [Line("    ->" + wrapped[0][6:], "next"), *(Line(text, "next") for text in wrapped[1:])]
    return lines


def render(
    report: Report,
    titles: Mapping[str, str],
    *,
    fold: Callable[[Iterable[str]], str],
    next_step: str,
    everything: bool = False,
    table: Sequence[str] = (),
    width: int = 80,
) -> list[Line]:
    """All lines of a report. `titles`: check id → title; `fold`: host names → node[01-16]; `table`: measurements."""
    lines: list[Line] = []
    by_check: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        if everything or finding.outcome not in (Outcome.PASS, Outcome.SKIP):
            by_check[finding.check].append(finding)
    for check, findings in sorted(by_check.items(), key=lambda item: (_severity(item[1]), item[0])):
        lines += _check_lines(check, titles.get(check, ""), findings, fold, width)
    if lines:
        lines.append(Line(""))
    if table:
        lines += [Line(printable(row)) for row in table]
        lines.append(Line(""))
    for left in report.left_out:
        lines += [Line(text, "warn") for text in _wrap(f"left out: {left.host}: {left.why}", "", width)]
    for note in report.notes:
        lines += [Line(text, "dim") for text in _wrap(f"note: {note}", "", width)]
    for verdict in Outcome:
        names = [host.name for host in report.hosts if host.verdict is verdict]
        if names:
            lines.append(Line(f"{verdict.value:<8}{len(names)} of {len(report.hosts)} hosts: {fold(names)}", verdict))
    counted = Counter(
        overall(f.outcome for f in report.findings if f.check == check) for check in {f.check for f in report.findings}
    )
    counts = ", ".join(f"{counted[outcome]} {outcome.value}" for outcome in Outcome if counted[outcome])
    lines.append(Line(f"{report.verdict.value.upper()}: {counts or 'nothing'} of {sum(counted.values())} checks",
                      report.verdict.value))  # fmt: skip
    lines.append(Line(f"next: {next_step}", "next"))
    return lines
