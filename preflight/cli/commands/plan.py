"""Show the changes that the hosts need, as a diff, and save them for `preflight apply`.

  preflight plan --inventory hosts.toml --out plan.json
  preflight plan --area ports --area firewall
  preflight plan --from facts.json --exit-code      # offline, from saved facts

No host is changed.
"""

import argparse
from pathlib import Path

from preflight.cli.change_options import add_permission_arguments
from preflight.cli.option_texts import CHANGES, HOSTS, OUTPUT
from preflight.cli.options import add_inventory_arguments, option_group
from preflight.model.change import Area


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    option_group(parser, HOSTS).add_argument(
        "--from", dest="source", type=Path, metavar="FACTS", help="saved facts to plan from; no host is contacted"
    )
    option_group(parser, CHANGES).add_argument(
        "--area", action="append", type=Area, choices=tuple(Area), help="area to plan; repeatable (default: all)"
    )
    add_permission_arguments(parser)
    output = option_group(parser, OUTPUT)
    output.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="file for the plan, to be used by preflight apply; overwrites an existing file only if it is a plan",
    )
    output.add_argument("--exit-code", action="store_true", help="exit with code 5 if something would change")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes import plan

    return plan.run(args)
