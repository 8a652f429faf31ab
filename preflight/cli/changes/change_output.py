"""Output of the configure commands: the plan, then the results; as text or as JSON."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from preflight.app.planning import NO_HOST
from preflight.app.session import Session
from preflight.checks.engine.registry import all_checks
from preflight.cli.changes.next_command import after_configure, after_run, plan_anew
from preflight.cli.options import again
from preflight.inventory import fold
from preflight.model.change import Area, Change, Plan, StepResult, StepState
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.report import Report
from preflight.provision.host_run import JOURNAL
from preflight.provision.render import PlanLine, render, totals, wrapped
from preflight.provision.render_results import render_fixed, render_results
from preflight.provision.rollout import failed_hosts
from preflight.report.build import RunDetails, build
from preflight.report.console import show, width
from preflight.report.document import document
from preflight.report.text import Line as ReportLine
from preflight.report.text import render as render_report

UP_TO_DATE = "every host is up to date"

_STYLES = {"add": "pass", "remove": "fail"}  # a diff's colours are those of the report


@dataclass(frozen=True)
class ChangeEnding:
    """The end of a run: findings before and after, the plan, and its results."""

    before: Sequence[Finding]
    after: Sequence[Finding]
    plan: Plan
    results: Sequence[StepResult]  # empty if nothing was tried
    notes: Sequence[str]  # changes left out of the plan, with reasons, and messages of hosts
    run: str = ""  # run id for rollback
    at_work: Mapping[str, str] = field(default_factory=dict)  # hosts on which another run was active → its owner


def say(s: Session, *sentences: str) -> None:
    """Show closing sentences. The last one is the next command."""
    *first, last = sentences
    _show(s, [*map(PlanLine, first), PlanLine(last, "next")])


def show_plan(
    s: Session, plan: Plan, notes: Sequence[str], nothing: str = "nothing to change", *, whole: bool = False
) -> None:
    """Show the plan as a diff, and its number of changes.

    `nothing` is the text for an empty plan; `whole` shows all that files will contain.
    """
    lines = render(plan, notes, fold=fold, whole=whole)
    if plan.changes:
        lines.append(PlanLine(totals(plan), "title"))
    else:
        exception = ", except for the notes above" if notes and nothing != NO_HOST else ""
        lines.append(PlanLine(nothing + exception))
    _show(s, lines)


def finish(args: argparse.Namespace, s: Session, started: datetime, end: ChangeEnding, exit_code: int) -> int:
    """Show the changes made, and the fixed and the failing checks, from the same checks run again.

    Return `exit_code`.
    """
    details = RunDetails(inventory=args.inventory)
    report = build(args.command, started, [host.name for host in s.hosts], end.after, details)

    if args.output == "json":
        print(_document(document(report, exit_code), end))
    elif args.dry_run and end.plan.changes:
        _show(s, [PlanLine("nothing was changed (--dry-run)"), PlanLine(f"next: {again(args)}", "next")])
    else:
        _show_ending(args, s, report, end)
    return exit_code


def _show_ending(args: argparse.Namespace, s: Session, report: Report, end: ChangeEnding) -> None:
    titles = {id_: check.title for id_, check in all_checks().items()}
    changes = _changes_made(end, titles)
    _show(s, [*changes, PlanLine("")] if changes else [])
    next_step = _after_other_run(args, end.at_work) or after_configure(args, end.after, end.results)
    if all(finding.outcome is Outcome.SKIP for finding in end.after):  # such a report has no verdict
        reasons = dict.fromkeys(finding.summary for finding in end.after)
        _show(s, [*(PlanLine(f"not judged: {reason}") for reason in reasons), PlanLine(f"next: {next_step}", "next")])
        return
    show(render_report(report, titles, fold=fold, next_step=next_step, width=width()))


def _changes_made(end: ChangeEnding, titles: Mapping[str, str]) -> list[PlanLine]:
    """Return lines on the changes, on what they fixed, and on what they left."""
    before = [finding for finding in end.before if finding.host not in end.at_work]
    lines = [*render_results(end.results, fold=fold), *render_fixed(before, end.after, titles, fold=fold)]
    lines += [PlanLine(line, "warn") for line in _not_tried(end)]
    lines += _way_back(end.run, end.results)
    lines += _left_to_others(end.at_work)
    return lines


def _show(s: Session, lines: Iterable[PlanLine]) -> None:
    s.progress.clear()
    show(ReportLine(line.text, _STYLES.get(line.style, line.style)) for line in lines)


@dataclass(frozen=True)
class RunResults:
    """Results of a saved plan or of a rollback.

    `short`: a change was not tried. `at_work`: hosts on which another run was active → its owner. `blind`: the plan is
    empty because a host could not be checked.
    """

    run: str
    results: Sequence[StepResult]
    notes: Sequence[str]
    at_work: Mapping[str, str]
    short: bool
    blind: bool = False

    @property
    def exit_code(self) -> int:
        if self.short or self.at_work or failed_hosts(self.results):
            return 1
        return 3 if self.blind else 0


def finish_run(args: argparse.Namespace, s: Session, end: RunResults) -> int:
    """Show the results of a saved plan or of a rollback, and return the exit code."""
    if args.output == "json":
        print(_run_document(args.command, end))
        return end.exit_code
    lines = render_results(end.results, fold=fold)
    lines += _left_alone(args, end.results)
    lines += _way_back(end.run, end.results)
    lines += _left_to_others(end.at_work)
    next_step = plan_anew(args) if end.blind else after_run(args, end.results, short=end.short)
    _show(s, [*lines, PlanLine(f"next: {_after_other_run(args, end.at_work) or next_step}", "next")])
    return end.exit_code


def _left_to_others(at_work: Mapping[str, str]) -> Iterator[PlanLine]:
    """Yield lines that name the other runs that were active on the hosts."""
    for owner in dict.fromkeys(at_work.values()):
        hosts = [name for name, host_owner in at_work.items() if host_owner == owner]
        sentence = f"another run ({owner}) is changing {fold(hosts)}. The state shown there is temporary."
        yield from (PlanLine(text, "warn") for text in wrapped(sentence, "! ", "  "))


def _after_other_run(args: argparse.Namespace, at_work: Mapping[str, str]) -> str:
    return f"wait for the other run to end, then run: {again(args)}" if at_work else ""


def _left_alone(args: argparse.Namespace, results: Sequence[StepResult]) -> list[PlanLine]:
    """Return a pointer to the host's journal for values that a rollback did not restore."""
    if args.command != "rollback" or all(result.state is not StepState.MOVED for result in results):
        return []
    journal = f"{JOURNAL}/{args.run_id}.jsonl"
    sentence = f"set the values that were left alone manually. Their old values are on the host in {journal}."
    return [PlanLine(text, "warn") for text in wrapped(sentence, "! ", "  ")]


def _not_tried(end: ChangeEnding) -> Iterator[str]:
    """Yield lines for opened firewalls that no connection has tested."""
    opened = any(result.change.area is Area.FIREWALL for result in end.results)
    for finding in end.after:
        if opened and finding.check == "FWL104" and finding.outcome is Outcome.SKIP:
            yield f"! not confirmed by a connection: {finding.summary}"


def _way_back(run: str, results: Sequence[StepResult]) -> list[PlanLine]:
    """Return the rollback command if the run may have changed anything."""
    if not run or not any(result.touched for result in results):
        return []
    return [PlanLine(f"run {run}; to undo: preflight rollback {run}", "dim")]


def _run_document(command: str, end: RunResults) -> str:
    """Return the `preflight.run/1` document (docs/contracts.md)."""
    body = {
        "schema": "preflight.run/1",
        "run": end.run,
        "command": command,
        "exit": end.exit_code,
        "changes": [_changed(result.change, result) for result in end.results],
        "notes": end.notes,
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()


def _document(report: str, end: ChangeEnding) -> str:
    """Return the report (docs/contracts.md) with the changes and those left out (docs/configure.md)."""
    results = {result.change: result for result in end.results}
    changes = [_changed(change, results.get(change)) for change in end.plan.changes]
    body = {**msgspec.json.decode(report), "changes": changes, "held_back": end.notes}
    if end.run:
        body["run"] = end.run
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()


def _changed(change: Change, result: StepResult | None) -> dict[str, object]:
    state, observed, message = (result.state, result.found, result.message) if result else (StepState.PENDING, None, "")
    return {**msgspec.to_builtins(change), "state": state, "found": observed, "message": message}
