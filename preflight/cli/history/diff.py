"""`preflight diff`: two runs, compared."""

import argparse

from preflight.app.saved.diff_sides import changed_between, sides
from preflight.cli.history.diff_output import document, lines
from preflight.cli.pipe import reader_may_leave
from preflight.model.errors import UsageError
from preflight.report.console import show, width
from preflight.report.diff import diff


def run(args: argparse.Namespace) -> int:
    if len(args.runs) > 2:
        raise UsageError(f"diff compares two runs, not {len(args.runs)}")
    before, after = sides(args.runs, args.inventory)
    difference = diff(before, after)
    changing = list(changed_between(before, after))
    with reader_may_leave():
        if args.output == "json":
            print(document(difference, changing))
        else:
            show(list(lines(difference, changing, width())))
    return difference.exit_code
