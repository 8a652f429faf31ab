"""The Report with one line for each problem, for a chat, a pager or grep.

A line has the outcome, check, place and summary. The verdict and the next command are the last lines.
"""

from collections.abc import Callable, Iterable

from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.model.text import printable
from preflight.report.blocks import blocks, folded
from preflight.report.obstacles import LISTED
from preflight.report.text import count_line

_TOLD = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)


def short(report: Report, *, fold: Callable[[Iterable[str]], str], next_step: str) -> str:
    """Return the lines, which are never wrapped. `fold` folds host names to node[01-16]."""
    problems: list[tuple[int, str]] = []
    for block in blocks((f for f in report.findings if f.outcome in _TOLD), unfold=True):
        for group in folded(block.findings):
            subject, outcome = f"{fold(group.hosts)}: " if group.hosts else "", group.first.outcome
            label = ",".join(block.checks) if len(block.checks) <= LISTED else f"{len(block.checks)} checks"
            line = f"{outcome:<8}{label}  {printable(subject + group.summary)}"
            problems.append((_TOLD.index(outcome), line))
    lines = [line for _, line in sorted(problems, key=lambda problem: problem[0])]
    lines += [f"left out: {printable(f'{entry.host}: {entry.why}')}" for entry in report.left_out]
    return "\n".join([*lines, count_line(report), f"next: {next_step}"])
