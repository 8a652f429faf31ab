"""`preflight history`: runs of this machine, as a list or one by one."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice

from preflight.app.saved.named_run import any_run
from preflight.checks.engine.catalogue import catalogue
from preflight.cli.history.history_document import document
from preflight.history.runs import CheckRun, check_runs
from preflight.history.store import HistoryError
from preflight.inventory import fold
from preflight.model.change import Plan, StepState
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome, overall
from preflight.model.places import state_home
from preflight.provision.journal import PastRun, past_runs, taken_back
from preflight.provision.render import render
from preflight.report.console import show, width
from preflight.report.text import Line, finding_lines

Past = PastRun | CheckRun
_CHECKS = 4  # named in one line of the list


def run(args: argparse.Namespace) -> int:
    if args.run_id is not None:
        runs, error = [any_run(args.run_id)], None
    else:
        runs, error = _newest(args.number, args.host)
    if args.output == "json":
        print(document(runs, whole=bool(args.run_id)))
    elif args.run_id:
        _show_one(runs[0])
    else:
        print("\n".join(_listed(runs, args.host)))
    if error:
        sys.stdout.flush()
        raise error  # raised after the runs of the journals are shown
    return 0


def _newest(number: int, host: str) -> tuple[list[Past], HistoryError | None]:
    """Return the newest runs of both kinds, and the reason why those of one kind are missing.

    They are ordered by their ids, which begin with the time.
    """
    changing = (past for past in past_runs() if not host or host in past.hosts)
    runs: list[Past] = list(islice(changing, number))
    missing: HistoryError | None = None
    try:
        runs += check_runs(number, host)
    except HistoryError as error:
        missing = error
    return sorted(runs, key=lambda past: past.run, reverse=True)[:number], missing


def _listed(runs: list[Past], host: str = "") -> Iterator[str]:
    if not runs:
        yield f"this machine has no run with {host}" if host else _nothing()
        return
    width = max(len(_command(past)) for past in runs)
    undone = taken_back(past for past in runs if isinstance(past, PastRun))
    yield f"{'run':20}  {'command':{width}}  hosts  result"
    for past in runs:
        end = "; rolled back" if past.run in undone else ""
        yield f"{past.run:20}  {_command(past):{width}}  {len(past.hosts):>5}  {_result_of(past, host)}{end}"
        if detail := _detail(past):
            yield f"{'':20}  {detail}"
    yield ""
    yield f"next: preflight history {runs[0].run}"


def _detail(past: Past) -> str:
    """Return the second line of a run: the run that it takes back, or the options of its probe."""
    if isinstance(past, CheckRun):
        return past.asked
    return f"rolls back {past.undoes}" if past.undoes else ""


def _nothing() -> str:
    """Return why the list is empty. Raise HistoryError if runs may exist but cannot be read."""
    place = state_home()
    try:
        for folder in (place.parent, place, place / "runs"):
            with os.scandir(folder):
                pass
    except FileNotFoundError:
        if not place.parent.exists():
            return f"this machine has no runs yet: {place.parent}, the directory of runs, does not exist"
    except OSError as error:
        raise HistoryError(f"cannot read the runs in {error.filename}: {error.strerror}") from None
    return "this machine has no runs yet"


def _command(past: Past) -> str:
    """Return the command, with the backend of a probe, since its figures hold for that backend alone."""
    return (
        f"{past.command} {past.setting.backend}"
        if isinstance(past, CheckRun) and past.command == "probe"
        else past.command
    )


def _result_of(past: Past, host: str) -> str:
    """Return the result of a run for the list; of one host alone, if `host` is set."""
    if isinstance(past, PastRun):
        return ending(past)
    if not host:
        return f"{past.verdict.value}{_labels(past.findings, past.verdict)}"
    findings = [finding for finding in past.findings if finding.host == host]
    verdict = overall([Outcome.PASS, *(finding.outcome for finding in findings)])
    whole = f" (whole run: {past.verdict.value})" if past.verdict is not verdict else ""
    return f"{verdict.value}{_labels(findings, verdict, devices=True)}{whole}"


def _labels(findings: Iterable[Finding], verdict: Outcome, *, devices: bool = False) -> str:
    """Return the checks with that outcome, after a colon; with `devices` also those of each check."""
    places: dict[str, list[str]] = {}
    for finding in findings:
        if finding.outcome is verdict:
            numbers = places.setdefault(finding.check, [])
            numbers += [str(finding.device)] if devices and finding.device is not None else []
    labels = [
        f"{check} (device {', '.join(numbers)})" if numbers else check for check, numbers in sorted(places.items())
    ]
    remainder = f" and {len(labels) - _CHECKS} more" if len(labels) > _CHECKS else ""
    return f"{': ' if labels else ''}{', '.join(labels[:_CHECKS])}{remainder}"


_OTHERWISE = {
    StepState.ALREADY: "already in place",
    StepState.MOVED: "left alone (changed by others)",
    StepState.DID_NOT_STICK: "without effect",
    StepState.FAILED: "failed",
    StepState.NOT_RUN: "not tried",
    StepState.REVERTED: "undone by the host",
}


def ending(past: PastRun) -> str:
    """Return the results of a run's changes. The numbers add up to their total."""
    total, done, already = len(past.changes), past.states.get(StepState.DONE, 0), past.states.get(StepState.ALREADY, 0)
    if not total:
        return "nothing to change"
    if already == total:
        return f"nothing changed ({already} already in place)"
    at_least = "at least " if past.maybe or past.unheard else ""
    parts = [f"{at_least}{done} of {total} changes" if past.touched else "nothing changed"]
    parts += [f"{number} {words}" for state, words in _OTHERWISE.items() if (number := past.states.get(state))]
    parts += _uncertain(past)
    return ", ".join(parts)


def _uncertain(past: PastRun) -> Iterator[str]:
    """Yield what is not known of a run's changes."""
    if past.maybe:
        yield "some of which may have changed something"
    if past.unheard:
        yield f"{past.unheard} unknown (see the journals on the hosts)"
    if past.not_begun:
        yield f"{past.not_begun} on hosts that were not started"
    if past.exit is None:
        yield "interrupted or still running"


def _show_one(past: Past) -> None:
    if isinstance(past, CheckRun):
        _show_check(past)
    else:
        _show_changes(past)


def _show_check(past: CheckRun) -> None:
    titles = {id_: entry.title for id_, entry in catalogue().items()}
    lines = finding_lines(past.findings, titles, fold=fold, unfold=True, width=width())
    lines += [Line(f"… and {past.dropped} more, which were not stored", "dim")] if past.dropped else []
    lines += [Line("")] if lines else []
    lines.append(
        Line(
            f"{_command(past)}{past.asked and ' ' + past.asked} by {past.owner}, {past.started} to {past.finished}",
            "dim",
        )
    )
    lines.append(Line(f"inventory {past.inventory or 'none'}, cluster {past.setting.cluster}", "dim"))
    if past.figures:
        measured = f"{len(past.figures)} bandwidths over {past.setting.backend}"
        lines.append(Line(f"{measured}: preflight baseline compare {past.run}", "dim"))
    verdict = f"{past.verdict.value.upper()}: {fold(past.hosts) or 'no host'}, exit code {past.exit}"
    show([*lines, Line(verdict, past.verdict.value), Line(f"next: {past.next_step}", "next")])


def _show_changes(past: PastRun) -> None:
    show([Line(line.text, line.style) for line in render(Plan(past.changes), (), fold=fold)])
    begun_hosts = fold(past.begun) if past.begun else "no host"
    print(f"{past.command} by {past.owner}, {past.started}, inventory {past.inventory}")
    undone = past.run in taken_back(past_runs())
    print(f"started on {begun_hosts}: {ending(past)}{'; rolled back' if undone else ''}")
    if past.touched and not undone:
        print(f"to undo: preflight rollback {past.run}")
    print("next: preflight history")
