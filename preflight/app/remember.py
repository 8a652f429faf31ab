"""Runs of check and probe in the history, and what earlier runs add to their reports."""

from dataclasses import replace

from preflight.app.run import ClusterRun
from preflight.checks.engine.run import NotRun
from preflight.facts.documents.facts_document import compact
from preflight.history.baselines import saved
from preflight.history.documents import FACTS, REPORT, compress
from preflight.history.repeated_failures import notes, repeated_failures
from preflight.history.runs import CheckRun, RunSetting, notable_findings, remember
from preflight.history.store import HistoryError
from preflight.inventory import fold
from preflight.model.figures import Baseline, figures
from preflight.model.report import Report
from preflight.provision.journal import owner
from preflight.report.document import document


def remembered(report: Report, run: ClusterRun, exit_code: int, next_step: str) -> Report:
    """Save the run in the history. Return the report with notes on repeated failures, or on why it was not saved."""
    try:
        again = tuple(notes(repeated_failures(run.setting.cluster, report.findings), fold))
        report = replace(report, notes=report.notes + again)
        this_run = _past_run(report, run, exit_code, next_step)
        documents: dict[str, bytes] = {}
        try:
            documents = compress(_documents(report, run, exit_code))
        except (UnicodeError, MemoryError) as error:  # an inventory's path may not be UTF-8
            report = replace(
                report, notes=(*report.notes, f"facts and report of this run are not kept: {error or 'out of memory'}")
            )
        remember(this_run, documents)
    except HistoryError as error:
        return replace(report, notes=(*report.notes, f"this run is not in the history: {error}"))
    return report


def _documents(report: Report, run: ClusterRun, exit_code: int) -> dict[str, bytes]:
    return {REPORT: document(report, exit_code).encode(), FACTS: compact(run.facts)}


def _past_run(report: Report, run: ClusterRun, exit_code: int, next_step: str) -> CheckRun:
    return CheckRun(
        run=report.run,
        command=report.command,
        owner=owner(),
        started=report.started,
        finished=report.finished,
        verdict=report.verdict,
        exit=exit_code,
        inventory="" if run.options.hosts else str(run.options.inventory.absolute()),
        setting=run.setting,
        hosts=tuple(host.name for host in report.hosts),
        checks=frozenset(report.looked),
        findings=tuple(notable_findings(report.findings)),
        figures=figures(report.tests),
        next_step=next_step,
        asked=run.options.test_selection,
    )


def baseline_of(setting: RunSetting) -> Baseline | NotRun:
    """Return the baseline of the probe's figures, or why there is none."""
    try:
        baseline = saved(setting)
    except HistoryError as error:
        return NotRun(str(error))
    why = f"no baseline of {setting.cluster} over {setting.backend} is saved. To save one: preflight baseline save"
    return baseline or NotRun(why)
