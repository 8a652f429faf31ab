"""Reports of check and probe, on stdout and in files, in the requested forms."""

import argparse
import sys
from pathlib import Path

from preflight.app.end import Ended
from preflight.app.files import write_whole
from preflight.checks.engine.registry import all_checks
from preflight.cli.pipe import reader_may_leave
from preflight.cli.report_options import Output, outputs
from preflight.inventory import fold
from preflight.model.errors import PreflightError
from preflight.probe.table import rows
from preflight.report.console import show, width
from preflight.report.document import document
from preflight.report.html import html
from preflight.report.junit import junit
from preflight.report.nagios import nagios, nagios_code
from preflight.report.prometheus import prometheus
from preflight.report.short import short
from preflight.report.text import Line, render


def present(args: argparse.Namespace, ended: Ended) -> int:
    """Print the report to stdout, write its files, and return the exit code.

    It is the exit code of a Nagios plugin if stdout has that form.
    """
    shown, *files = outputs(args)
    try:
        with reader_may_leave():
            if shown.format in ("console", "brief"):
                show(_lines(args, ended, table=shown.format == "console", columns=width()))
            else:
                print(_text(args, ended, shown), end="")
    finally:  # last, so that the report is shown even if a file cannot be written
        unwritten = [
            error for output in files if output.file and (error := _unwritten(output.file, _text(args, ended, output)))
        ]
    if shown.format == "nagios":
        for error in unwritten:
            print(f"preflight: {error}", file=sys.stderr)
        return nagios_code(ended.report)
    if unwritten:
        raise PreflightError("; ".join(map(str, unwritten)))
    return ended.exit_code


def _unwritten(path: Path, text: str) -> PreflightError | None:
    """Write a file. Return the error, or None if it was written."""
    try:
        write_whole(path, text, "the report")
    except PreflightError as error:
        return error
    return None


def _text(args: argparse.Namespace, ended: Ended, output: Output) -> str:
    """Return one form of the report, with its last line end. Each renderer is imported only when it is needed."""
    report = ended.report
    match output.format:
        case "json":
            return document(report, ended.exit_code, everything=args.all) + "\n"
        case "short":
            return short(report, fold=fold, next_step=ended.next_step) + "\n"
        case "junit":
            checks = all_checks().values()
            return (
                junit(report, {check.id: check.title for check in checks}, {check.id: check.area for check in checks})
                + "\n"
            )
        case "prometheus":
            return prometheus(report)
        case "nagios":
            return nagios(report) + "\n"
        case "html":
            titles = {check.id: check.title for check in all_checks().values()}
            return html(report, titles, fold=fold, next_step=ended.next_step)
        case _:
            return "".join(f"{line.text}\n" for line in _lines(args, ended, table=True, columns=80))


def _lines(args: argparse.Namespace, ended: Ended, *, table: bool, columns: int) -> list[Line]:
    return render(
        ended.report,
        {id_: check.title for id_, check in all_checks().items()},
        fold=fold,
        next_step=ended.next_step,
        everything=args.all,
        table=rows(ended.observations) if table else [],
        width=columns,
    )
