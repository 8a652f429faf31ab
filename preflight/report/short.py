"""The Report as a line a problem, for a chat, a pager or grep: outcome, check, where, what; the verdict and the next
command last."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.report.text import count_line, folded, printable

_TOLD = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)


def short(report: Report, *, fold: Callable[[Iterable[str]], str], next_step: str) -> str:
    """No line is wrapped. `fold`: host names → node[01-16]."""
    same: dict[tuple[int, str], list[Finding]] = defaultdict(list)
    for finding in report.findings:
        if finding.outcome in _TOLD:
            same[_TOLD.index(finding.outcome), finding.check].append(finding)
    lines = []
    for (_, check), findings in sorted(same.items()):
        for group in folded(findings):
            subject = f"{fold(group.hosts)}: " if group.hosts else ""
            lines.append(f"{group.first.outcome:<8}{check}  {printable(subject + group.summary)}")
    lines += [f"left out: {printable(f'{left.host}: {left.why}')}" for left in report.left_out]
    return "\n".join([*lines, count_line(report), f"next: {next_step}"])
