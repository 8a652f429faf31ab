"""Show the differences between two runs: facts, findings and measurements.

  preflight diff                      # last run that passed, and the newest run
  preflight diff RUN                  # that run, and the newest run
  preflight diff RUN RUN
  preflight diff good.json bad.json   # saved reports, facts or captures

RUN is an id from `preflight history`, a unique prefix of the id, or one of the words last and
passed. No host is contacted. Values that always change (times, counters, load) are left out.
docs/history.md has the rules. Exit codes: 0 no difference, 1 differences, 3 nothing was
comparable.
"""

import argparse
from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY
from preflight.cli.options import add_form_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="*", help="run from preflight history, or a saved file")
    parser.add_argument(
        "-i",
        "--inventory",
        type=Path,
        default=DEFAULT_INVENTORY,
        metavar="FILE",
        help="inventory for the run names 'last' and 'passed' (default: hosts.toml if it exists, else any inventory)",
    )
    add_form_argument(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.history import diff

    return diff.run(args)
