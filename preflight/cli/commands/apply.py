"""Carry out a saved plan: that and nothing else.

Every host is compared with the plan first. If one of them is neither as it was seen nor as it is wanted, the plan is
stale, and nothing is changed anywhere. Devices that a job uses by now are left alone.
"""

import argparse
from pathlib import Path

from preflight.cli.change_options import add_change_arguments
from preflight.cli.options import add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, metavar="PLAN", help="a file of preflight plan --out")
    add_inventory_arguments(parser)
    parser.set_defaults(inventory=None)
    add_change_arguments(parser)
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes import apply

    return apply.run(args)
