"""Forms of a report other than that for a terminal: JSON, JUnit, Prometheus, Nagios, HTML, and text in a file."""

import argparse

from preflight.app.end import EndedRun
from preflight.checks.engine.registry import all_checks
from preflight.cli.console_report import console_lines, titles
from preflight.inventory import fold
from preflight.report.document import document
from preflight.report.html import html
from preflight.report.junit import junit
from preflight.report.nagios import nagios
from preflight.report.prometheus import prometheus
from preflight.report.short import short


def report_text(args: argparse.Namespace, ended: EndedRun, form: str) -> str:
    """Return one form of the report, with its last line end."""
    report = ended.report
    match form:
        case "json":
            return document(report, ended.exit_code, everything=args.all) + "\n"
        case "short":
            return short(report, fold=fold, next_step=ended.next_step) + "\n"
        case "junit":
            return junit(report, titles(), {id_: check.area for id_, check in all_checks().items()}) + "\n"
        case "prometheus":
            return prometheus(report)
        case "nagios":
            return nagios(report) + "\n"
        case "html":
            return html(report, titles(), fold=fold, next_step=ended.next_step)
        case _:
            return "".join(f"{line.text}\n" for line in console_lines(args, ended, table=True, columns=80))
