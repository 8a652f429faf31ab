"""The Report as a line a problem, for a chat, a pager or grep: outcome, check, where, what; the verdict and the next
command last."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.report.obstacles import LISTED
from preflight.report.text import blocks, count_line, folded, printable

_TOLD = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)


def short(report: Report, *, fold: Callable[[Iterable[str]], str], next_step: str) -> str:
    """No line is wrapped. `fold`: host names → node[01-16]."""
    by_check: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        if finding.outcome in _TOLD:
            by_check[finding.check].append(finding)
    told: list[tuple[int, str]] = []
    for checks, findings in blocks(by_check):
        for group in folded(findings):
            subject, outcome = f"{fold(group.hosts)}: " if group.hosts else "", group.first.outcome
            what = ",".join(checks) if len(checks) <= LISTED else f"{len(checks)} checks"
            line = f"{outcome:<8}{what}  {printable(subject + group.summary)}"
            told.append((_TOLD.index(outcome), line))
    lines = [line for _, line in sorted(told, key=lambda one: one[0])]
    lines += [f"left out: {printable(f'{left.host}: {left.why}')}" for left in report.left_out]
    return "\n".join([*lines, count_line(report), f"next: {next_step}"])
