"""Lines of a report for a terminal."""

import argparse

from preflight.app.end import EndedRun
from preflight.checks.engine.registry import all_checks
from preflight.inventory import fold
from preflight.model.outcome import Outcome
from preflight.probe.table import headline, rows
from preflight.report.text import Line, render

# Checks that compare measurements.
_OF_FIGURES = ("PRB103", "PRB104", "PRB111", "PRB112", "PRB115", "PRB116", "PRB117", "PRB118")


def titles() -> dict[str, str]:
    """Return the titles of all checks, by id."""
    return {id_: check.title for id_, check in all_checks().items()}


def console_lines(args: argparse.Namespace, ended: EndedRun, *, table: bool, columns: int) -> list[Line]:
    """Return the report's lines. `table` allows the measurements: all of them if a finding is about one of them."""
    about_figures = any(
        finding.check in _OF_FIGURES and finding.outcome in (Outcome.FAIL, Outcome.WARN)
        for finding in ended.report.findings
    )
    whole = table and (args.all or about_figures)
    return render(
        ended.report,
        titles(),
        fold=fold,
        next_step=ended.next_step,
        everything=args.all,
        table=rows(ended.observations) if whole else (),
        figures=headline(ended.report.tests) if table and not whole else "",
        width=columns,
    )
