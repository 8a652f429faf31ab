"""The Report as lines of text, folded over hosts and devices, at most 80 columns where words allow it. Pure."""

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.model.finding import Finding
from preflight.model.number_ranges import number_ranges
from preflight.model.outcome import Outcome, overall, worst_by
from preflight.model.report import Report
from preflight.model.text import printable
from preflight.report.obstacles import LISTED, obstacle, shared_obstacles

_DEVICE = "\1"  # placeholder for a finding's device while findings are compared

LINES_A_CHECK = 8  # folded findings of one check that are shown; the others are counted
MOST_FIXES = 3


@dataclass(frozen=True)
class Line:
    """One line. `style` is an outcome's value, "title", "dim" or "next", for output with colours."""

    text: str
    style: str = ""


MOST_TEXT, MOST_EVIDENCE = 2000, 20  # characters of a text, lines of evidence, in formats other than JSON


def clipped(text: str) -> str:
    """Return the printable text, cut if it is long: a line of a log may have a megabyte."""
    return printable(text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} … ({len(text)} characters)")


def evidence(lines: Sequence[str]) -> list[str]:
    """Return the first lines of the evidence, clipped, and the number of further ones."""
    remainder = len(lines) - MOST_EVIDENCE
    first_lines = [clipped(line) for line in lines[:MOST_EVIDENCE]]
    return [*first_lines, f"… and {remainder} more lines (-o json lists all)"] if remainder > 0 else first_lines


@dataclass(frozen=True)
class Fix:
    """The first thing to do, and what to type for it."""

    remedy: str
    commands: tuple[str, ...]


@dataclass(frozen=True)
class FindingGroup:
    """Findings with the same text about several hosts or devices. `first` is shown for all."""

    first: Finding
    summary: str
    hosts: tuple[str, ...]
    devices: tuple[int, ...]
    causes: frozenset[str]
    fixes: frozenset[Fix]

    @property
    def cause(self) -> str:
        """The cause if it is the same for all findings; many causes name the address of one device."""
        return self.first.cause if len(self.causes) == 1 else ""

    @property
    def fix(self) -> Fix:
        """The fix of the first finding, with a note where the others have another command or name another host."""
        remedy, commands = self.first.remedy, self.first.commands
        is_first = len({fix.commands for fix in self.fixes}) > 1 if commands else f"{self.first.host}" in remedy
        if remedy and is_first and not self.single:
            remedy += f" (do the same for the other {'hosts' if len(self.hosts) > 1 else 'devices'})"
        return Fix(remedy, commands)

    @property
    def single(self) -> bool:
        return len(self.hosts) <= 1 and len(self.devices) <= 1

    @property
    def compared(self) -> str:
        """The expected and the found value, without what the summary has. Several subjects have several values."""
        first = self.first
        has_found = _contains(first.summary, first.found)
        if not self.single or (has_found and _contains(first.summary, first.expected)):
            return ""
        values = (("expected", first.expected), ("found", "" if has_found else first.found))
        return "; ".join(f"{word} {value}" for word, value in values if value)


def _contains(text: str, value: str) -> bool:
    """Return whether the text has the value as whole words: 1 is not in 10."""
    return not value or bool(re.search(rf"(?<![\w.]){re.escape(value)}(?![\w]|\.\d)", text))


def _without_subject(finding: Finding) -> str:
    """Return the summary without its host in front and with a placeholder for its device, for comparisons."""
    text = finding.summary.removeprefix(f"{finding.host}: ")
    if finding.device is not None:
        text = re.sub(rf"\bdevice {finding.device}\b", _DEVICE, text, count=1)
    return text


def folded(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Fold findings over the devices of each host, then over hosts with the same text and devices."""
    by_host: dict[tuple[str | None, Outcome, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        by_host[finding.host, finding.outcome, _without_subject(finding)].append(finding)
    groups: dict[tuple[Outcome, str, tuple[int, ...]], list[Finding]] = defaultdict(list)
    for (_, outcome, text), same in by_host.items():
        devices = tuple(sorted({finding.device for finding in same if finding.device is not None}))
        groups[outcome, text, devices] += same
    result = []
    for (_, text, devices), same in groups.items():
        hosts = tuple(dict.fromkeys(finding.host for finding in same if finding.host is not None))
        device_words = f"device{'s' if len(devices) > 1 else ''} {number_ranges(devices)}"
        causes = frozenset(finding.cause for finding in same)
        fixes = frozenset(Fix(finding.remedy, finding.commands) for finding in same)
        result.append(FindingGroup(same[0], text.replace(_DEVICE, device_words), hosts, devices, causes, fixes))
    return sorted(result, key=lambda group: list(Outcome).index(group.first.outcome))


def _severity(findings: Iterable[Finding]) -> int:
    return list(Outcome).index(overall(finding.outcome for finding in findings))


def _wrap(text: str, indent: str, width: int) -> list[str]:
    return textwrap.wrap(
        printable(text),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _group_lines(group: FindingGroup, fold: Callable[[Iterable[str]], str], width: int) -> list[Line]:
    subject = f"{fold(group.hosts)}: " if group.hosts else ""
    lines = [Line(text, group.first.outcome.value) for text in _wrap(subject + group.summary, "    ", width)]
    lines += [Line(text, "dim") for text in _wrap(group.compared, "      ", width)]
    if group.single:
        lines += [line for text in group.first.evidence[:3] for line in _evidence_lines(text, width)]
    if group.cause:
        lines += [Line(text, "dim") for text in _wrap(f"likely cause: {group.cause}", "      ", width)]
    return lines


def _evidence_lines(text: str, width: int) -> list[Line]:
    """Return at most two lines. An error of a library may fill a page; -o json has all of it."""
    wrapped = textwrap.wrap(f"evidence: {printable(text)}", width - 6, max_lines=2, placeholder=" …")
    return [Line(f"      {line}", "dim") for line in wrapped]


def blocks(by_check: Mapping[str, Sequence[Finding]]) -> list[tuple[list[str], Sequence[Finding]]]:
    """Return the checks with their findings, the worst first. Checks with a common obstacle form one block."""
    shared = shared_obstacles(finding for findings in by_check.values() for finding in findings)
    blocks: list[tuple[list[str], Sequence[Finding]]] = []
    for same in shared.values():
        distinct = {(finding.host, finding.device, finding.summary): finding for finding in same}
        blocks.append((sorted({finding.check for finding in same}), list(distinct.values())))
    for check, findings in by_check.items():
        if separate := [finding for finding in findings if obstacle(finding) not in shared]:
            blocks.append(([check], separate))
    return sorted(blocks, key=lambda block: (_severity(block[1]), block[0]))


def heading(checks: Sequence[str], titles: Mapping[str, str]) -> str:
    """Return the heading of a block of findings."""
    if len(checks) == 1:
        return f"{checks[0]}  {titles.get(checks[0], '')}"
    return ", ".join(checks) if len(checks) <= LISTED else f"{len(checks)} checks could not run"


def fixes(groups: Sequence[FindingGroup]) -> tuple[list[Fix], str]:
    """Return the first distinct fixes of one check, and the line that counts the further ones, or ""."""
    distinct = dict.fromkeys(group.fix for group in groups)
    all_fixes = [fix for fix in distinct if fix.remedy or fix.commands]
    remainder = len(all_fixes) - MOST_FIXES
    line = f"… and {remainder} more {'fixes' if remainder > 1 else 'fix'}: -o json lists all" if remainder > 0 else ""
    return all_fixes[:MOST_FIXES], line


def retests(groups: Sequence[FindingGroup]) -> list[str]:
    """Return the distinct commands that show these findings again."""
    return list(dict.fromkeys(group.first.retest for group in groups[:LINES_A_CHECK] if group.first.retest))[
        :MOST_FIXES
    ]


def _block_lines(
    checks: Sequence[str],
    titles: Mapping[str, str],
    findings: Sequence[Finding],
    fold: Callable[[Iterable[str]], str],
    width: int,
) -> list[Line]:
    verdict = overall(finding.outcome for finding in findings)
    first, *further = _wrap(heading(checks, titles), " " * 8, width)
    lines = [Line(text, verdict.value) for text in (f"{verdict.value.upper():<8}{first[8:]}", *further)]
    groups = folded(findings)
    for group in groups[:LINES_A_CHECK]:
        lines += _group_lines(group, fold, width)
    if len(groups) > LINES_A_CHECK:
        lines.append(Line(f"    … and {len(groups) - LINES_A_CHECK} more like these (-o json lists all)", "dim"))
    if len(checks) > LISTED:
        lines += [Line(text, "dim") for text in _wrap(f"checks: {', '.join(checks)}", "      ", width)]
    first_fixes, further_fixes = fixes(groups)
    for fix in first_fixes:
        lines += _fix_lines(fix, width)
    lines += [Line(f"    {further_fixes}", "next")] if further_fixes else []
    lines += [Line(f"    retest: {printable(command)}", "next") for command in retests(groups)]
    return lines


def _fix_lines(fix: Fix, width: int) -> list[Line]:
    """Return the fix, with each command whole on its own line, to be copied."""
    lines = _wrap(f"fix: {fix.remedy}", "    ", width) if fix.remedy else ["    fix:"]
    return [Line(text, "next") for text in (*lines, *(f"      {printable(command)}" for command in fix.commands))]


def finding_lines(
    findings: Iterable[Finding],
    titles: Mapping[str, str],
    *,
    fold: Callable[[Iterable[str]], str],
    width: int = 80,
) -> list[Line]:
    """Return the findings as lines, folded, the worst first. The parameters are those of `render`."""
    by_check: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_check[finding.check].append(finding)
    return [line for checks, same in blocks(by_check) for line in _block_lines(checks, titles, same, fold, width)]


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
    """Return all lines of a report.

    `titles` maps check ids to titles; `fold` folds host names to node[01-16]; `table` has the measurements.
    """
    shown = [f for f in report.findings if everything or f.outcome not in (Outcome.PASS, Outcome.SKIP)]
    lines = finding_lines(shown, titles, fold=fold, width=width)
    if lines:
        lines.append(Line(""))
    if table:
        lines += [Line(printable(row)) for row in table]
        lines.append(Line(""))
    for entry in report.left_out:
        lines += [Line(text, "warn") for text in _wrap(f"left out: {entry.host}: {entry.why}", "", width)]
    for note in report.notes:
        lines += [Line(text, "dim") for text in _wrap(f"note: {note}", "", width)]
    lines += _host_lines(report, fold)
    return [*lines, Line(count_line(report), report.verdict.value), Line(f"next: {next_step}", "next")]


def _host_lines(report: Report, fold: Callable[[Iterable[str]], str]) -> Iterator[Line]:
    """Yield a line for each verdict, with its hosts."""
    for verdict in Outcome:
        names = [host.name for host in report.hosts if host.verdict is verdict]
        if names:
            yield Line(f"{verdict.value:<8}{len(names)} of {len(report.hosts)} hosts: {fold(names)}", verdict)


def count_line(report: Report) -> str:
    """Return the verdict, and the number of checks for each outcome."""
    outcomes = Counter(worst_by((finding.check, finding.outcome) for finding in report.findings).values())
    counts = ", ".join(f"{outcomes[outcome]} {outcome.value}" for outcome in Outcome if outcomes[outcome])
    ran = f"{counts} of {sum(outcomes.values())} checks" if counts else "no check ran"
    return f"{report.verdict.value.upper()}: {ran}"
