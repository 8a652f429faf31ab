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
from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    from preflight.cli.history import diff

    return diff.run(args)
