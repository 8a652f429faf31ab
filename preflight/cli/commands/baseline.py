"""Save what a probe measured, and compare later probes with it.

  preflight baseline save         # the last probe that passed
  preflight baseline show
  preflight baseline compare      # the last probe; ends with 1 if it is slower

A baseline belongs to a cluster, its product and the backend. The one named "default" is what PRB115 judges every later
probe by. It keeps its run in the history for as long as it is not saved anew.
"""

import argparse

from preflight.cli.options import RUN_HELP
from preflight.history.baselines import USUAL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    saving = actions.add_parser("save", help="call the figures of a run good", allow_abbrev=False)
    saving.add_argument("run_id", metavar="RUN", nargs="?", help=f"{RUN_HELP} (default: the last probe that passed)")
    saving.add_argument("--force", action="store_true", help="also in place of one with more bandwidths")
    showing = actions.add_parser("show", help="list what is saved, with its figures", allow_abbrev=False)
    comparing = actions.add_parser("compare", help="a probe's figures beside the saved ones", allow_abbrev=False)
    comparing.add_argument(
        "run_id", metavar="RUN", nargs="?", help=f"{RUN_HELP} (default: the last probe that passed, but for PRB115)"
    )
    for action in (saving, comparing):
        action.add_argument("--name", type=_name, default=USUAL, help=f"which baseline (default: {USUAL})")
    for action in (showing, comparing):
        action.add_argument("-o", "--output", choices=("console", "json"), default="console")


def _name(text: str) -> str:
    if not text.isprintable() or not 0 < len(text) <= 40:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of up to 40 characters")
    return text


def run(args: argparse.Namespace) -> int:
    from preflight.cli.history import baseline

    return baseline.run(args)
