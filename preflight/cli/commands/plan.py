"""Look at every host and show what would be changed, as a diff; save it for `preflight apply`.

Nothing is changed. A plan is limited to areas with --area, and can be made from facts that were saved before.
"""

import argparse
from pathlib import Path

from preflight.cli.change_options import add_permission_arguments
from preflight.cli.options import add_inventory_arguments
from preflight.model.change import Area


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="save the plan here, for preflight apply FILE; an older plan there is written over, nothing else",
    )
    parser.add_argument("--area", action="append", type=Area, choices=tuple(Area), help="only this area (repeatable)")
    parser.add_argument("--from", dest="source", type=Path, metavar="FACTS", help="plan from saved facts, offline")
    parser.add_argument("--exit-code", action="store_true", help="end with 5 if something would change")
    add_permission_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes import plan

    return plan.run(args)
