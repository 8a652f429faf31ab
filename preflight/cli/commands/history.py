"""List the runs on this machine, newest first, or show one run.

  preflight history                   # check, probe, configure, apply, rollback
  preflight history --host node03     # runs that included this host
  preflight history RUN               # findings, changes and next step of a run

Runs that change hosts write a journal, so they are listed while they run. Runs of check and probe
are listed after they end.
"""

import argparse

from preflight.cli.option_texts import RUN_HELP
from preflight.cli.options import add_form_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", nargs="?", help=f"run to show: {RUN_HELP} (default: list the runs)")
    parser.add_argument(
        "-n", "--number", type=_number, default=20, metavar="N", help="number of runs to list (default: 20)"
    )
    parser.add_argument(
        "--host", metavar="HOST", default="", help="list the runs and results of this host only (default: all hosts)"
    )
    add_form_argument(parser)


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 6 or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid number of runs")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.history import runs

    return runs.run(args)
