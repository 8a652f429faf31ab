"""Reports of check and probe, on stdout and in files, in the requested forms."""

import argparse
import sys

from preflight.app.end import EndedRun
from preflight.app.files import write_whole
from preflight.cli.console_report import console_lines
from preflight.cli.pipe import reader_may_leave
from preflight.cli.report_options import ReportOutput, outputs
from preflight.model.errors import PreflightError
from preflight.report.console import show, width
from preflight.report.nagios import nagios_code


def present(args: argparse.Namespace, ended: EndedRun) -> int:
    """Print the report to stdout, write its files, and return the exit code.

    It is the exit code of a Nagios plugin if stdout has that form.
    """
    shown, *files = outputs(args)
    try:
        with reader_may_leave():
            if shown.format in ("console", "brief"):
                show(console_lines(args, ended, table=shown.format == "console", columns=width()))
            elif shown.format == "jsonl":
                args.stream.end(ended, everything=args.all)
            else:
                print(_text(args, ended, shown), end="")
    finally:  # last, so that the report is shown even if a file cannot be written
        unwritten = [error for output in files if (error := _unwritten(output, _text(args, ended, output)))]
    if shown.format == "nagios":
        for error in unwritten:
            print(f"preflight: {error}", file=sys.stderr)
        return nagios_code(ended.report)
    if unwritten:
        raise PreflightError("; ".join(map(str, unwritten)))
    return ended.exit_code


def _text(args: argparse.Namespace, ended: EndedRun, output: ReportOutput) -> str:
    from preflight.cli.report_forms import report_text  # most reports are for the terminal alone

    return report_text(args, ended, output.format)


def _unwritten(output: ReportOutput, text: str) -> PreflightError | None:
    """Write a file. Return the error, or None if it was written."""
    try:
        if output.file:
            write_whole(output.file, text, "the report")
    except PreflightError as error:
        return error
    return None
