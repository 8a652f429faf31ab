"""The end of check and probe: one Report, rendered as requested, and the exit code that follows from it."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from preflight.app.files import write_whole
from preflight.app.publish import Published
from preflight.app.remember import remembered
from preflight.checks.engine.registry import all_checks
from preflight.cli.options import again
from preflight.cli.pipe import reader_may_leave
from preflight.cli.report_options import Output, outputs
from preflight.facts.types import ClusterFacts
from preflight.history.runs import Setting
from preflight.inventory import fold
from preflight.model.cluster import Host
from preflight.model.errors import PreflightError
from preflight.model.finding import Finding
from preflight.model.measure import Observation
from preflight.model.outcome import Outcome
from preflight.model.report import LeftOut, Phase, Report
from preflight.probe.table import rows
from preflight.report.build import build
from preflight.report.console import show, width
from preflight.report.document import document
from preflight.report.html import html
from preflight.report.junit import junit
from preflight.report.nagios import nagios, nagios_code
from preflight.report.next_step import next_step
from preflight.report.prometheus import prometheus
from preflight.report.short import short
from preflight.report.text import Line, render


class Ended(NamedTuple):
    """The result of a run: its report, saved and published if requested, but not shown yet."""

    report: Report
    exit_code: int
    next_step: str
    observations: Sequence[Observation]


def end(
    args: argparse.Namespace,
    command: str,
    started: datetime,
    hosts: Sequence[Host],
    findings: Sequence[Finding],
    *,
    observations: Sequence[Observation] = (),
    left_out: Sequence[LeftOut] = (),
    notes: Sequence[str] = (),
    phases: Sequence[Phase] = (),
    to_prove: str | None = None,
    setting: Setting | None = None,
    facts: ClusterFacts | None = None,
    publish: Callable[[Report], Published] | None = None,
) -> Ended:
    """Build the report of a run that ends now, and its exit code (docs/contracts.md). Publish and save it.

    `to_prove` is that of `next_step`. `setting` is saved with the run in the history; it is None if no host was
    contacted. `facts` are saved with it. `publish` brings the report to the hosts.
    """
    report = build(
        command,
        started,
        [host.name for host in hosts],
        findings,
        observations=observations,
        left_out=left_out,
        notes=notes,
        phases=phases,
        inventory=args.inventory,
    )
    exit_code = report.exit_code(Outcome(getattr(args, "fail_on", "fail")))
    command_next = next_step(report, args.inventory, limit=args.limit, to_prove=to_prove)
    if publish:
        published = publish(report)
        report = replace(report, notes=(*report.notes, *published.notes))
        if not published.everywhere and exit_code in (0, 3):
            exit_code, command_next = 1, f"see to what kept it from being published, then: {again(args)}"
    if setting:
        report = remembered(report, setting, args.inventory, exit_code, command_next, _asked(args), facts)
    return Ended(report, exit_code, command_next, observations)


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


def _asked(args: argparse.Namespace) -> str:
    """Return the probe options that make figures incomparable: fewer groups, or other sizes."""
    lists = {name: getattr(args, name, None) for name in ("scope", "sizes")}
    words = ["--quick"] if getattr(args, "quick", False) else []
    return " ".join([*words, *(f"--{name} {','.join(map(str, values))}" for name, values in lists.items() if values)])


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
