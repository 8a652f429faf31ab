"""Take back what a run changed, in reverse order, from what every host wrote down about it.

What somebody has changed since is left alone and reported. A device has no way to drop an address: its file is put
back, and it keeps the address until it is reset.
"""

import argparse

from preflight.cli.change_options import add_change_arguments
from preflight.cli.options import RUN_HELP, add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", help=f"{RUN_HELP}: the newest that changed hosts")
    add_inventory_arguments(parser)
    parser.set_defaults(inventory=None)
    add_change_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="only show what would be taken back")
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes import rollback

    return rollback.run(args)
