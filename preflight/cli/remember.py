"""What a run of check or probe leaves in the history, and what earlier ones tell about it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from preflight.history.runs import Look, Setting, remember, telling
from preflight.history.store import HistoryError
from preflight.model.cluster import Cluster
from preflight.model.outcome import Outcome
from preflight.model.report import Report

if TYPE_CHECKING:
    from preflight.checks.run import NotRun
    from preflight.model.figures import Baseline


def setting_of(cluster: Cluster, backend: str | None = None) -> Setting:
    """`backend`: what carried the probe, if not the inventory's."""
    return Setting(cluster.name, cluster.product.value, backend or cluster.probe.backend)


def remembered(
    report: Report, setting: Setting, inventory: Path, exit_code: int, next_step: str, asked: str = ""
) -> Report:
    """The run is written down; the report, with notes on who failed again, or why there is no history of it. `asked`:
    as in Look."""
    from preflight.history.offenders import notes, offenders
    from preflight.inventory import fold

    try:
        again = tuple(notes(offenders(setting.cluster, report.findings), fold))
        remember(replace(_look(report, setting, inventory, exit_code, next_step), asked=asked))
    except HistoryError as error:
        again = (f"this run is not remembered: {error}",)
    return replace(report, notes=report.notes + again)


def _look(report: Report, setting: Setting, inventory: Path, exit_code: int, next_step: str) -> Look:
    from preflight.model.figures import figures
    from preflight.provision.journal import owner

    looked = (finding for finding in report.findings if finding.outcome is not Outcome.SKIP)
    return Look(
        run=report.run,
        command=report.command,
        owner=owner(),
        started=report.started,
        finished=report.finished,
        verdict=report.verdict,
        exit=exit_code,
        inventory=str(inventory.absolute()),
        setting=setting,
        hosts=tuple(host.name for host in report.hosts),
        checks=frozenset(finding.check for finding in looked),
        findings=tuple(telling(report.findings)),
        figures=figures(report.tests),
        next_step=next_step,
    )


def baseline_of(setting: Setting) -> "Baseline | NotRun":
    """What the probe's figures are compared with, or why they are not."""
    from preflight.checks.run import NotRun
    from preflight.history.baselines import saved

    try:
        found = saved(setting)
    except HistoryError as error:
        return NotRun(str(error))
    why = f"no baseline is saved of {setting.cluster} over {setting.backend}; preflight baseline save makes one"
    return found or NotRun(why)
