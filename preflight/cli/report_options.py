"""Options on the forms of a report, and the files that they are written to."""

import argparse
from pathlib import Path
from typing import NamedTuple

from preflight.app.files import refuse_place
from preflight.cli.options import OUTPUT, option_group
from preflight.model.errors import UsageError

FORMATS = ("console", "short", "json", "junit", "prometheus", "nagios", "html")


class ReportOutput(NamedTuple):
    """One form of the report, on stdout or in a file. "brief" is "console" without the table of measurements."""

    format: str
    file: Path | None = None


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    output = option_group(parser, OUTPUT)
    output.add_argument(
        "-o",
        "--output",
        dest="outputs",
        type=_output,
        action="append",
        metavar="FORMAT[=FILE]",
        help=f"form of the report, to stdout or FILE: {', '.join(FORMATS)} (default: console); repeatable",
    )
    add_save_argument(parser)
    output.add_argument("--all", action="store_true", help="show passed and skipped checks, too")


def _output(text: str) -> ReportOutput:
    word, equals, file = text.partition("=")
    if word not in FORMATS:
        raise argparse.ArgumentTypeError(f"{word!r} is no format; there are {', '.join(FORMATS)}")
    if equals and not file:
        raise argparse.ArgumentTypeError(f"{text!r} names no file")
    return ReportOutput(word, Path(file) if file else None)


def add_save_argument(parser: argparse.ArgumentParser) -> None:
    option_group(parser, OUTPUT).add_argument(
        "--save", type=Path, metavar="FILE", help="file that gets the report as JSON, too"
    )


def outputs(args: argparse.Namespace) -> list[ReportOutput]:
    """Return the requested outputs, those for stdout first. At least one is for stdout."""
    wanted = list(args.outputs or ())
    if args.save:
        wanted.append(ReportOutput("json", args.save))
    if all(output.file for output in wanted):
        wanted.append(ReportOutput("console"))
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
