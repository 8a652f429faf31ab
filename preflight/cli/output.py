"""The end of check and probe: one Report, rendered as requested, and the exit code that follows from it."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from preflight.app.session import again, refuse_place, write_whole
from preflight.cli.pipe import reader_may_leave
from preflight.model.cluster import Host
from preflight.model.errors import PreflightError, UsageError
from preflight.model.finding import Finding
from preflight.model.measure import Observation
from preflight.model.outcome import Outcome
from preflight.model.report import LeftOut, Phase, Report
from preflight.report.console import show, width

if TYPE_CHECKING:
    from preflight.app.publish import Published
    from preflight.facts.types import ClusterFacts
    from preflight.history.runs import Setting
    from preflight.report.text import Line


FORMATS = ("console", "short", "json", "junit", "prometheus", "nagios", "html")


class Output(NamedTuple):
    """One form of the report, on stdout or in a file. "brief" is "console" without the table of measurements."""

    format: str
    file: Path | None = None


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        dest="outputs",
        type=_output,
        action="append",
        metavar="FORMAT[=FILE]",
        help=f"{', '.join(FORMATS)}; to stdout, or into a file. May be given several times (default: console)",
    )
    add_save_argument(parser)
    parser.add_argument("--all", action="store_true", help="show what passed and what was skipped, too")


def _output(text: str) -> Output:
    word, equals, file = text.partition("=")
    if word not in FORMATS:
        raise argparse.ArgumentTypeError(f"{word!r} is no format; there are {', '.join(FORMATS)}")
    if equals and not file:
        raise argparse.ArgumentTypeError(f"{text!r} names no file")
    return Output(word, Path(file) if file else None)


def add_save_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the report to FILE, as JSON")


def outputs(args: argparse.Namespace) -> list[Output]:
    """Return the requested outputs, those for stdout first. At least one is for stdout."""
    wanted = list(args.outputs or ())
    if args.save:
        wanted.append(Output("json", args.save))
    if all(output.file for output in wanted):
        wanted.append(Output("console"))
    return sorted(wanted, key=lambda output: output.file is not None)


def refuse_unwritable(args: argparse.Namespace) -> None:
    """Raise UsageError if the report cannot be written to its outputs, before any host is contacted."""
    wanted = outputs(args)
    if len([output for output in wanted if output.file is None]) > 1:
        raise UsageError("-o: only one form of the report can go to stdout; give the others a file, -o FORMAT=FILE")
    files = [output.file for output in wanted if output.file]
    for path in files:
        if files.count(path) > 1:
            raise UsageError(f"{path} is named for two forms of the report; give each a file of its own")
        refuse_place(path, "--save" if path == args.save else "-o")


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
    setting: "Setting | None" = None,
    facts: "ClusterFacts | None" = None,
    publish: "Callable[[Report], Published] | None" = None,
) -> Ended:
    """Build the report of a run that ends now, and its exit code (docs/contracts.md). Publish and save it.

    `to_prove` is that of `next_step`. `setting` is saved with the run in the history; it is None if no host was
    contacted. `facts` are saved with it. `publish` brings the report to the hosts.
    """
    from preflight.report.build import build
    from preflight.report.next_step import next_step

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
        from preflight.app.remember import remembered

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
        from preflight.report.nagios import nagios_code

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
            from preflight.report.document import document

            return document(report, ended.exit_code, everything=args.all) + "\n"
        case "short":
            from preflight.inventory import fold
            from preflight.report.short import short

            return short(report, fold=fold, next_step=ended.next_step) + "\n"
        case "junit":
            from preflight.checks.engine.registry import all_checks
            from preflight.report.junit import junit

            checks = all_checks().values()
            return (
                junit(report, {check.id: check.title for check in checks}, {check.id: check.area for check in checks})
                + "\n"
            )
        case "prometheus":
            from preflight.report.prometheus import prometheus

            return prometheus(report)
        case "nagios":
            from preflight.report.nagios import nagios

            return nagios(report) + "\n"
        case "html":
            from preflight.checks.engine.registry import all_checks
            from preflight.inventory import fold
            from preflight.report.html import html

            titles = {check.id: check.title for check in all_checks().values()}
            return html(report, titles, fold=fold, next_step=ended.next_step)
        case _:
            return "".join(f"{line.text}\n" for line in _lines(args, ended, table=True, columns=80))


def _lines(args: argparse.Namespace, ended: Ended, *, table: bool, columns: int) -> "list[Line]":
    from preflight.checks.engine.registry import all_checks
    from preflight.inventory import fold
    from preflight.probe.table import rows
    from preflight.report.text import render

    return render(
        ended.report,
        {id_: check.title for id_, check in all_checks().items()},
        fold=fold,
        next_step=ended.next_step,
        everything=args.all,
        table=rows(ended.observations) if table else [],
        width=columns,
    )
