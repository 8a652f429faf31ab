"""The end of check and probe: one Report, rendered as asked, and the exit code that follows from it."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from preflight.cli.common import again
from preflight.cli.pipe import silence_stdout
from preflight.model.cluster import Host
from preflight.model.errors import PreflightError, UsageError
from preflight.model.finding import Finding
from preflight.model.measure import Observation
from preflight.model.outcome import Outcome
from preflight.model.report import LeftOut, Report

if TYPE_CHECKING:
    from preflight.cli.publish import Published
    from preflight.history.runs import Setting


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")
    add_save_argument(parser)
    parser.add_argument("--all", action="store_true", help="show what passed and what was skipped, too")


def add_save_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the report to FILE, as JSON")


def refuse_unwritable(path: Path | None) -> None:
    """Raises UsageError where `--save` names what cannot be written: to be said before anybody is contacted."""
    if path is None:
        return
    try:
        _partial(path).exists()  # raises where the name is too long
        if path.exists() and not path.is_file():
            what = "a directory; name a file in it" if path.is_dir() else "no ordinary file; name another one"
            raise UsageError(f"--save {path} is {what}")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(f"--save {path}: nothing can be written in {path.parent}: {error.strerror}") from None


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def _save(path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a report."""
    partial = _partial(path)
    try:
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise PreflightError(f"{path}: the report could not be written: {error.strerror}") from error


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
    to_prove: str | None = None,
    setting: "Setting | None" = None,
    publish: "Callable[[Report], Published] | None" = None,
) -> Ended:
    """The report of a run that ends now, and its exit code (docs/contracts.md). `to_prove`: see `next_step`; `setting`:
    what the run is remembered with, None where no host was contacted; `publish`: brings it to the hosts."""
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

        report = remembered(report, setting, args.inventory, exit_code, then, _asked(args))
    return Ended(report, exit_code, then, observations)


def present(args: argparse.Namespace, ended: Ended) -> int:
    """Print the report to stdout, write it to --save, and return the exit code."""
    report, exit_code, then, observations = ended
    if args.save or args.output == "json":
        from preflight.report.document import document

        text = document(report, exit_code, everything=args.all)
    try:
        if args.output == "json":
            print(text)
        else:
            _show(args, report, observations, then)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; the verdict stands
        silence_stdout()
    if args.save:  # last: where it cannot be written, the report has at least been shown
        _save(args.save, text)
    return exit_code


def _asked(args: argparse.Namespace) -> str:
    """What a probe was told that makes its figures those of fewer groups or other sizes."""
    lists = {name: getattr(args, name, None) for name in ("scope", "sizes")}
    words = ["--quick"] if getattr(args, "quick", False) else []
    return " ".join([*words, *(f"--{name} {','.join(map(str, given))}" for name, given in lists.items() if given)])


def _show(args: argparse.Namespace, report: Report, observations: Sequence[Observation], then: str) -> None:
    from preflight.checks.registry import all_checks
    from preflight.inventory import fold
    from preflight.probe.table import rows
    from preflight.report.console import show, width
    from preflight.report.text import render

    show(
        render(
            report,
            {id_: check.title for id_, check in all_checks().items()},
            fold=fold,
            next_step=then,
            everything=args.all,
            table=[] if args.output == "brief" else rows(observations),
            width=width(),
        )
    )
