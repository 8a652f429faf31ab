"""The end of check and probe: one Report, rendered as asked, and the exit code that follows from it."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from preflight.cli.common import again, refuse_place, write_whole
from preflight.cli.pipe import reader_may_leave
from preflight.model.cluster import Host
from preflight.model.errors import PreflightError, UsageError
from preflight.model.finding import Finding
from preflight.model.measure import Observation
from preflight.model.outcome import Outcome
from preflight.model.report import LeftOut, Phase, Report
from preflight.report.console import show, width

if TYPE_CHECKING:
    from preflight.cli.publish import Published
    from preflight.facts.types import ClusterFacts
    from preflight.history.runs import Setting
    from preflight.report.text import Line


FORMATS = ("console", "short", "json", "junit", "prometheus", "nagios", "html")


class Output(NamedTuple):
    """One form of the report, on stdout or in a file. "brief" is the console's without the table of measurements."""

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
    word, given, file = text.partition("=")
    if word not in FORMATS:
        raise argparse.ArgumentTypeError(f"{word!r} is no format; there are {', '.join(FORMATS)}")
    if given and not file:
        raise argparse.ArgumentTypeError(f"{text!r} names no file")
    return Output(word, Path(file) if file else None)


def add_save_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the report to FILE, as JSON")


def outputs(args: argparse.Namespace) -> list[Output]:
    """What is asked for, what goes to stdout first; there is always something that does."""
    asked = list(args.outputs or ())
    if args.save:
        asked.append(Output("json", args.save))
    if all(one.file for one in asked):
        asked.append(Output("console"))
    return sorted(asked, key=lambda one: one.file is not None)


def refuse_unwritable(args: argparse.Namespace) -> None:
    """Raises UsageError where the report cannot go where it is asked for: to be said before anybody is contacted."""
    asked = outputs(args)
    if len([one for one in asked if one.file is None]) > 1:
        raise UsageError("-o: only one form of the report can go to stdout; give the others a file, -o FORMAT=FILE")
    files = [one.file for one in asked if one.file]
    for path in files:
        if files.count(path) > 1:
            raise UsageError(f"{path} is named for two forms of the report; give each a file of its own")
        refuse_place(path, "--save" if path == args.save else "-o")


class Ended(NamedTuple):
    """What a run came to: its report, written down and published where that is asked for, and not shown yet."""

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
    """The report of a run that ends now, and its exit code (docs/contracts.md). `to_prove`: see `next_step`; `setting`:
    what the run is remembered with, None where no host was contacted; `facts`: what is kept of the hosts with it;
    `publish`: brings it to the hosts."""
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
    then = next_step(report, args.inventory, limit=args.limit, to_prove=to_prove)
    if publish:
        published = publish(report)
        report = replace(report, notes=(*report.notes, *published.notes))
        if not published.everywhere and exit_code in (0, 3):
            exit_code, then = 1, f"see to what kept it from being published, then: {again(args)}"
    if setting:
        from preflight.cli.remember import remembered

        report = remembered(report, setting, args.inventory, exit_code, then, _asked(args), facts)
    return Ended(report, exit_code, then, observations)


def present(args: argparse.Namespace, ended: Ended) -> int:
    """Print the report to stdout, write its files, and return the exit code: of a Nagios plugin, where that is what
    stdout is."""
    shown, *files = outputs(args)
    try:
        with reader_may_leave():
            if shown.format in ("console", "brief"):
                show(_lines(args, ended, table=shown.format == "console", columns=width()))
            else:
                print(_text(args, ended, shown), end="")
    finally:  # last: where one cannot be written, the report has at least been shown
        unwritten = [error for one in files if one.file and (error := _unwritten(one.file, _text(args, ended, one)))]
    if shown.format == "nagios":
        from preflight.report.nagios import nagios_code

        for error in unwritten:
            print(f"preflight: {error}", file=sys.stderr)
        return nagios_code(ended.report)
    if unwritten:
        raise PreflightError("; ".join(map(str, unwritten)))
    return ended.exit_code


def _unwritten(path: Path, text: str) -> PreflightError | None:
    """Why a file was not written; None where it was."""
    try:
        write_whole(path, text, "the report")
    except PreflightError as error:
        return error
    return None


def _asked(args: argparse.Namespace) -> str:
    """What a probe was told that makes its figures those of fewer groups or other sizes."""
    lists = {name: getattr(args, name, None) for name in ("scope", "sizes")}
    words = ["--quick"] if getattr(args, "quick", False) else []
    return " ".join([*words, *(f"--{name} {','.join(map(str, given))}" for name, given in lists.items() if given)])


def _text(args: argparse.Namespace, ended: Ended, output: Output) -> str:
    """A form of the report, with its last line end. Each renderer is loaded where it is asked for."""
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
            return junit(report, {it.id: it.title for it in checks}, {it.id: it.area for it in checks}) + "\n"
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

            titles = {it.id: it.title for it in all_checks().values()}
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
