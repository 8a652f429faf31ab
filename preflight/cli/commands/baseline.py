"""Save the measurements of a probe, and compare later probes with them.

  preflight baseline save         # last probe that passed
  preflight baseline show
  preflight baseline compare      # exit code 1 if the last probe is slower

A baseline is for one cluster, one product and one backend. The check PRB115 compares every later
probe with the baseline "default". The run of a baseline stays in the history until another run
replaces the baseline.
"""

import argparse

from preflight.cli.option_texts import RUN_HELP
from preflight.cli.options import add_form_argument
from preflight.history.baselines import USUAL

_SAVE = """Save a run's measurements as a baseline.

  preflight baseline save
  preflight baseline save RUN --name before-upgrade
"""
_SHOW = """List the baselines with their measurements.

  preflight baseline show
  preflight baseline show -o json
"""
_COMPARE = """Compare a probe's measurements with a baseline.

  preflight baseline compare
  preflight baseline compare RUN --name before-upgrade
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    saving = actions.add_parser(
        "save", help="save a run's measurements as a baseline", description=_SAVE, allow_abbrev=False
    )
    saving.add_argument("run_id", metavar="RUN", nargs="?", help=f"{RUN_HELP} (default: the last probe that passed)")
    saving.add_argument(
        "--force", action="store_true", help="replace the baseline even if it has more bandwidths than the run"
    )
    showing = actions.add_parser(
        "show", help="list the baselines with their measurements", description=_SHOW, allow_abbrev=False
    )
    comparing = actions.add_parser(
        "compare", help="compare a probe's measurements with a baseline", description=_COMPARE, allow_abbrev=False
    )
    comparing.add_argument(
        "run_id",
        metavar="RUN",
        nargs="?",
        help=f"{RUN_HELP} (default: the last probe that passed all checks except PRB115)",
    )
    for action in (saving, comparing):
        action.add_argument("--name", type=_name, default=USUAL, help=f"name of the baseline (default: {USUAL})")
    for action in (showing, comparing):
        add_form_argument(action)


def _name(text: str) -> str:
    if not text.isprintable() or not 0 < len(text) <= 40:
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of 1 to 40 characters")
    return text


def run(args: argparse.Namespace) -> int:
    from preflight.cli.history import baseline

    return baseline.run(args)
