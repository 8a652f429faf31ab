"""List the runs that were started on this machine, the newest first; or show one of them.

  preflight history                   # check, probe, configure, apply, rollback
  preflight history --host node03     # those that had to do with one host
  preflight history RUN               # what it found or changed, and what next

Runs that change hosts are read from their journals, which are written while they run; check and probe are remembered
when they end.
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run_id", metavar="RUN", nargs="?", help="show one run: its id, a unique beginning of it, or last"
    )
    parser.add_argument("-n", "--number", type=_number, default=20, metavar="N", help="list so many (default: 20)")
    parser.add_argument(
        "--host", metavar="HOST", default="", help="only runs over this host, and what came of it there"
    )
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 6 or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.history import runs

    return runs.run(args)
