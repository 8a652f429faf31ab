"""Apply a saved plan, and nothing else.

  preflight apply plan.json
  preflight apply plan.json --limit 'node[01-04]' --yes
  preflight apply plan.json --canary 2 --batch 25%

Every host is compared with the plan first. Each must be in the state that the plan saw, or
already in the wanted state. If one is not, the plan is stale, and no host is changed. Devices that
a job uses by now stay unchanged.
"""

import argparse
from pathlib import Path

from preflight.cli.change_options import add_change_arguments
from preflight.cli.options import add_form_argument, add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, metavar="PLAN", help="file that preflight plan --out wrote")
    add_inventory_arguments(parser, default="that of the plan")
    add_change_arguments(parser)
    add_form_argument(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes import apply

    return apply.run(args)
