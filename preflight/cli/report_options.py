"""Options on the forms of a report, and the files that they are written to."""

import argparse
from pathlib import Path
from typing import NamedTuple

from preflight.app.files import refuse_place
from preflight.cli.option_texts import OUTPUT
from preflight.cli.options import option_group
from preflight.model.errors import UsageError

FORMATS = ("console", "short", "json", "jsonl", "junit", "prometheus", "nagios", "html")
_FORM_OF_ENDING = {".html": "html", ".xml": "junit", ".prom": "prometheus"}  # of a file; json for all others


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
        help=f"report format, to stdout or FILE (default: console), repeatable: {', '.join(FORMATS)}",
    )
    add_save_argument(parser)
    output.add_argument("--all", action="store_true", help="also show passed and skipped checks")


def _output(text: str) -> ReportOutput:
    word, equals, file = text.partition("=")
    if word not in FORMATS:
        raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(FORMATS)}")
    if equals and not file:
        raise argparse.ArgumentTypeError(f"{text!r} has no file name after =")
    if equals and word == "jsonl":
        raise argparse.ArgumentTypeError("jsonl is for stdout only. Use -o jsonl, and --save FILE for the report.")
    return ReportOutput(word, Path(file) if file else None)


def add_save_argument(parser: argparse.ArgumentParser) -> None:
    option_group(parser, OUTPUT).add_argument(
        "--save",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="also write the report to FILE, repeatable: HTML, JUnit or Prometheus if FILE ends in .html, .xml or "
        ".prom, else JSON",
    )


def outputs(args: argparse.Namespace) -> list[ReportOutput]:
    """Return the requested outputs, those for stdout first. At least one is for stdout."""
    wanted = list(args.outputs or ())
    wanted += [ReportOutput(_FORM_OF_ENDING.get(path.suffix, "json"), path) for path in args.save or ()]
    if all(output.file for output in wanted):
        wanted.append(ReportOutput(args.default_output))
    return sorted(wanted, key=lambda output: output.file is not None)


def refuse_unwritable(args: argparse.Namespace) -> None:
    """Raise UsageError if the report cannot be written to its outputs, before any host is contacted."""
    wanted = outputs(args)
    if len([output for output in wanted if output.file is None]) > 1:
        raise UsageError("-o: only one form of the report can go to stdout. Write the others to files: --save FILE")
    files = [output.file for output in wanted if output.file]
    for path in files:
        if files.count(path) > 1:
            raise UsageError(f"{path} is given for two forms of the report. Choose different files.")
        refuse_place(path, "--save" if path in args.save else "-o")
