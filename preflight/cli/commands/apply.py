"""Apply a saved plan, and nothing else.

  preflight apply plan.json
  preflight apply plan.json --limit 'node[01-04]' --yes
  preflight apply plan.json --canary 2 --batch 25%

First, every host is compared with the plan. Every host must be in the state that it had when the
plan was made, or already in the planned state. If a host is in another state, the plan is stale,
and no host is changed. Devices that a job uses now stay unchanged.
"""

import argparse
from pathlib import Path

from preflight.cli.change_options import add_change_arguments
from preflight.cli.options import add_form_argument, add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, metavar="PLAN", help="file from preflight plan --out")
    add_inventory_arguments(parser, default="the plan's inventory")
    add_change_arguments(parser)
    add_form_argument(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes import apply

    return apply.run(args)
