"""Lines of a report for a terminal."""

import argparse

from preflight.app.end import EndedRun
from preflight.checks.engine.registry import all_checks
from preflight.inventory import fold
from preflight.probe.table import rows
from preflight.report.text import Line, render


def titles() -> dict[str, str]:
    """Return the titles of all checks, by id."""
    return {id_: check.title for id_, check in all_checks().items()}


def console_lines(args: argparse.Namespace, ended: EndedRun, *, table: bool, columns: int) -> list[Line]:
    """Return the report's lines. `table` adds the measurements."""
    return render(
        ended.report,
        titles(),
        fold=fold,
        next_step=ended.next_step,
        everything=args.all,
        table=rows(ended.observations) if table else [],
        width=columns,
    )
