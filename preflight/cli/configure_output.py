"""What the configure commands say: the plan before, and what became of it; for a person, or as JSON."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from preflight.cli.common import Session
from preflight.model.change import Plan, StepResult
from preflight.model.finding import Finding
from preflight.model.report import Report
from preflight.provision.render import Line, render, render_fixed, render_results
from preflight.report.text import Line as ReportLine

_STYLES = {"add": "pass", "remove": "fail"}  # a diff's colours are those of the report


@dataclass(frozen=True)
class Ending:
    """What there is to tell at the end of a run: the findings around it, what was to be done, and how that went."""

    before: Sequence[Finding]
    after: Sequence[Finding]
    plan: Plan
    results: Sequence[StepResult]  # empty: nothing was tried
    notes: Sequence[str]  # what was left out of the plan, and why


def show_plan(s: Session, plan: Plan, notes: Sequence[str]) -> None:
    from preflight.inventory import fold

    lines = render(plan, notes, fold=fold)
    if not plan.changes:
        lines.append(Line("nothing to change on the hosts that were reached"))
    _show(s, lines)


def finish(args: argparse.Namespace, s: Session, started: datetime, end: Ending, exit_code: int) -> int:
    """Say what was done, what is fixed and what is left, from the same checks run again; returns `exit_code`."""
    from preflight.report.build import build

    report = build(args.command, started, [host.name for host in s.hosts], end.after, inventory=args.inventory)
    if args.limit:
        report = replace(report, notes=(f"limited to {args.limit}, as asked",))
    if args.output == "json":
        from preflight.report.document import document

        print(_document(document(report, exit_code), end))
    elif args.dry_run and end.plan.changes:
        again = f"next: preflight {args.command} --inventory {args.inventory}"
        _show(s, [Line("nothing was changed (--dry-run)"), Line(again, "next")])
    else:
        _show_ending(s, report, end, str(args.inventory))
    return exit_code


def _show_ending(s: Session, report: Report, end: Ending, inventory: str) -> None:
    from preflight.checks.registry import all_checks
    from preflight.inventory import fold
    from preflight.report.console import show, width
    from preflight.report.text import render as render_report

    titles = {id_: check.title for id_, check in all_checks().items()}
    done = [*render_results(end.results, fold=fold), *render_fixed(end.before, end.after, titles, fold=fold)]
    _show(s, [*done, Line("")] if done else [])
    next_step = f"preflight check --inventory {inventory}"
    show(render_report(report, titles, fold=fold, next_step=next_step, width=width()))


def _show(s: Session, lines: Iterable[Line]) -> None:
    from preflight.report.console import show

    s.progress.clear()
    show(ReportLine(line.text, _STYLES.get(line.style, line.style)) for line in lines)


def _document(report: str, end: Ending) -> str:
    """The report (docs/contracts.md) with the changes and what was left out of them (docs/configure.md)."""
    import msgspec

    results = {result.change: result for result in end.results}
    changes = []
    for change in end.plan.changes:
        result = results.get(change)
        state, found, message = (result.state, result.found, result.message) if result else ("pending", None, "")
        changes.append({**msgspec.to_builtins(change), "state": state, "found": found, "message": message})
    body = {**msgspec.json.decode(report), "changes": changes, "held_back": end.notes}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
