"""Undo the changes of a run in reverse order, from the journal on each host.

  preflight rollback last
  preflight rollback RUN --dry-run
  preflight rollback RUN --limit node03 --yes

Later changes by other programs or people stay, and are reported. A device cannot drop an address.
preflight restores the file with the address, and the device keeps the address until its reset.
"""

import argparse

from preflight.cli.change_options import add_change_arguments
from preflight.cli.option_texts import CHANGES, RUN_HELP
from preflight.cli.options import add_form_argument, add_inventory_arguments, option_group


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help=f"{RUN_HELP} (the newest run that changed hosts)")
    add_inventory_arguments(parser, default="the run's inventory")
    add_change_arguments(parser)
    option_group(parser, CHANGES).add_argument(
        "--dry-run", action="store_true", help="show what would be undone, without changing anything"
    )
    add_form_argument(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes import rollback

    return rollback.run(args)
