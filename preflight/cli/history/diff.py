"""Show what changed between two runs: facts, findings and figures.

  preflight diff                      # the last run that passed, and the newest
  preflight diff RUN                  # that run, and the newest
  preflight diff RUN RUN
  preflight diff good.json bad.json   # of check --save, facts --out or capture

RUN is an id of preflight history, or its beginning, or one of the words last and passed. Nobody is contacted. What
changes by itself (times, counters, load) is left out: docs/history.md says how. Ends with 1 where something differs,
with 3 where nothing could be compared.
"""

import argparse

from preflight.app.diff_sides import changed_between, sides
from preflight.app.session import DEFAULT_INVENTORY
from preflight.cli.pipe import reader_may_leave
from preflight.report.diff import diff


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from pathlib import Path

    parser.add_argument("runs", metavar="RUN", nargs="*", help="a run of preflight history, or a file that it left")
    parser.add_argument(
        "-i",
        "--inventory",
        type=Path,
        default=DEFAULT_INVENTORY,
        metavar="FILE",
        help="whose runs are meant by last and passed (default: hosts.toml, or of any where there is none)",
    )
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")


def run(args: argparse.Namespace) -> int:
    from preflight.model.errors import UsageError

    if len(args.runs) > 2:
        raise UsageError(f"diff compares two runs, and {len(args.runs)} are named")
    before, after = sides(args.runs, args.inventory)
    difference = diff(before, after)
    changing = list(changed_between(before, after))
    with reader_may_leave():
        if args.output == "json":
            from preflight.cli.history.diff_output import document

            print(document(difference, changing))
        else:
            from preflight.cli.history.diff_output import lines
            from preflight.report.console import show, width

            show(list(lines(difference, changing, width())))
    return difference.exit_code
