"""The Report as lines of text, folded over hosts and devices, at most 80 columns where words allow it. Pure."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from preflight.grouping import grouped
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome, overall, worst_by
from preflight.model.report import Report
from preflight.model.text import printable
from preflight.report.blocks import (
    LINES_A_CHECK,
    FindingBlock,
    FindingGroup,
    Fix,
    Fold,
    blocks,
    explained_words,
    fixes,
    folded,
    heading,
    retests,
)
from preflight.report.host_problems import HostProblem, host_problems
from preflight.report.obstacles import LISTED


@dataclass(frozen=True)
class Line:
    """One line. `style` is an outcome's value, "title", "dim" or "next", for output with colours."""

    text: str
    style: str = ""


MOST_LINES = 8  # of unhealthy hosts, and of those that were left out; the others are counted
MOST_TEXT, MOST_EVIDENCE = 2000, 20  # characters of a text, lines of evidence, in formats other than JSON


def clipped(text: str) -> str:
    """Return the printable text, cut if it is long: a line of a log may have a megabyte."""
    return printable(text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} … ({len(text)} characters)")


def evidence(lines: Sequence[str]) -> list[str]:
    """Return the first lines of the evidence, clipped, and the number of further ones."""
    remainder = len(lines) - MOST_EVIDENCE
    first_lines = [clipped(line) for line in lines[:MOST_EVIDENCE]]
    return [*first_lines, f"… and {remainder} more lines (-o json lists all)"] if remainder > 0 else first_lines


def _wrap(text: str, indent: str, width: int) -> list[str]:
    return textwrap.wrap(
        printable(text),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _group_lines(group: FindingGroup, fold: Fold, width: int) -> list[Line]:
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


def _block_lines(block: FindingBlock, titles: Mapping[str, str], fold: Fold, width: int) -> list[Line]:
    verdict, checks = overall(finding.outcome for finding in block.findings), block.checks
    first, *further = _wrap(heading(checks, titles), " " * 8, width)
    lines = [Line(text, verdict.value) for text in (f"{verdict.value.upper():<8}{first[8:]}", *further)]
    groups = folded(block.findings)
    for group in groups[:LINES_A_CHECK]:
        lines += _group_lines(group, fold, width)
    if len(groups) > LINES_A_CHECK:
        lines.append(Line(f"    … and {len(groups) - LINES_A_CHECK} more like these (-o json lists all)", "dim"))
    if len(checks) > LISTED:
        lines += [Line(text, "dim") for text in _wrap(f"checks: {', '.join(checks)}", "      ", width)]
    lines += _advice_lines(groups, width)
    return lines + [Line(text, "dim") for text in _wrap(explained_words(block, titles, fold), "    ", width)]


def _advice_lines(groups: Sequence[FindingGroup], width: int) -> Iterator[Line]:
    first_fixes, further_fixes = fixes(groups)
    for fix in first_fixes:
        yield from _fix_lines(fix, width)
    if further_fixes:
        yield Line(f"    {further_fixes}", "next")
    for command in retests(groups):
        yield Line(f"    retest: {printable(command)}", "next")


def _fix_lines(fix: Fix, width: int) -> list[Line]:
    """Return the fix, with each command whole on its own line, to be copied."""
    lines = _wrap(f"fix: {fix.remedy}", "    ", width) if fix.remedy else ["    fix:"]
    return [Line(text, "next") for text in (*lines, *(f"      {printable(command)}" for command in fix.commands))]


def finding_lines(
    findings: Iterable[Finding],
    titles: Mapping[str, str],
    *,
    fold: Fold,
    unfold: bool = False,
    width: int = 80,
) -> list[Line]:
    """Return the findings as lines, the root cause first. `unfold` shows those that follow from others in full.

    The other parameters are those of `render`.
    """
    return [line for block in blocks(findings, unfold=unfold) for line in _block_lines(block, titles, fold, width)]


def render(
    report: Report,
    titles: Mapping[str, str],
    *,
    fold: Fold,
    next_step: str,
    everything: bool = False,
    table: Sequence[str] = (),
    figures: str = "",
    width: int = 80,
) -> list[Line]:
    """Return all lines of a report: what to read last is at the end, where a terminal shows it.

    `titles` maps check ids to titles; `fold` folds host names to node[01-16]; `table` has the measurements, `figures`
    the most important ones in one line.
    """
    shown = [f for f in report.findings if everything or f.outcome not in (Outcome.PASS, Outcome.SKIP)]
    lines = [Line(printable(row)) for row in (*table, "")] if table else []
    lines += finding_lines(shown, titles, fold=fold, unfold=everything, width=width)
    lines += [Line("")] if shown else []
    lines += _remarks(report, fold, width)
    lines += [Line(text, "dim") for text in _wrap(figures, "", width)]
    lines += _host_lines(report, fold, width)
    return [*lines, Line(count_line(report), report.verdict.value), Line(f"next: {next_step}", "next")]


def _remarks(report: Report, fold: Fold, width: int) -> Iterator[Line]:
    """Yield the hosts that were left out, by reason, and the notes."""
    reasons = grouped((entry.why, entry.host) for entry in report.left_out)
    for why, hosts in list(reasons.items())[:MOST_LINES]:
        yield from (Line(text, "warn") for text in _wrap(f"left out: {_cut(fold(hosts), width)}: {why}", "", width))
    if further := list(reasons.values())[MOST_LINES:]:
        yield Line(f"left out: {sum(map(len, further))} more hosts (-o json lists all)", "warn")
    for note in report.notes:
        yield from (Line(text, "dim") for text in _wrap(f"note: {note}", "", width))


def _host_lines(report: Report, fold: Fold, width: int) -> Iterator[Line]:
    """Yield a line for the hosts with the same problem, the worst first, and one for all hosts with each verdict."""
    problems = host_problems(report.findings)
    for problem in problems[:MOST_LINES]:
        place = _cut(fold(problem.hosts) or "cluster", width // 2)
        suffix = f" (and {problem.further} more)" if problem.further else ""
        text = _cut(f"{problem.outcome.value:<8}{place}: {problem.words}", width - len(suffix))
        yield Line(text + suffix, problem.outcome)
    further = grouped((problem.outcome, host) for problem in problems[MOST_LINES:] for host in problem.hosts)
    for outcome, hosts in further.items():
        yield Line(_cut(f"{outcome.value:<8}… and {len(hosts)} more hosts: {fold(hosts)}", width), outcome)
    yield from _other_lines(report, problems, fold, width)


def _other_lines(report: Report, problems: Sequence[HostProblem], fold: Fold, width: int) -> Iterator[Line]:
    """Yield a line for each verdict of the hosts without a problem."""
    unhealthy = set(chain.from_iterable(problem.hosts for problem in problems))
    by_verdict = grouped((host.verdict, host.name) for host in report.hosts if host.name not in unhealthy)
    is_between = any(problem.outcome is Outcome.FAIL and not problem.hosts for problem in problems)
    alone = ", each by itself" if is_between else ""
    for verdict, hosts in by_verdict.items():
        yield Line(
            _cut(f"{verdict.value:<8}{len(hosts)} of {len(report.hosts)} hosts{alone}: {fold(hosts)}", width), verdict
        )


def _cut(text: str, width: int) -> str:
    text = printable(text)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def count_line(report: Report) -> str:
    """Return the verdict, and the number of checks for each outcome. Skipped checks are not counted."""
    outcomes = Counter(worst_by((finding.check, finding.outcome) for finding in report.findings).values())
    del outcomes[Outcome.SKIP]
    counts = ", ".join(f"{outcomes[outcome]} {outcome.value}" for outcome in Outcome if outcomes[outcome])
    ran = f"{counts} of {sum(outcomes.values())} checks" if counts else "no check ran"
    return f"{report.verdict.value.upper()}: {ran}"
