"""Collect the facts of all hosts in one round trip, and print or save them.

  preflight facts --inventory hosts.toml
  preflight facts --inventory hosts.toml --out facts.json
  preflight check --inventory hosts.toml --from facts.json
  preflight facts --local
  preflight facts --from capture.json

No host is changed, and no check runs. --local reads this machine, without an inventory. The
installed tools decide whether the machine counts as an Ascend machine.
"""

import argparse
from pathlib import Path

from preflight.cli.option_texts import HOSTS, LOCAL_HELP, OUTPUT
from preflight.cli.options import add_basic_argument, add_form_argument, add_inventory_arguments, option_group


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    add_basic_argument(parser)
    hosts = option_group(parser, HOSTS)
    hosts.add_argument("--local", action="store_true", help=LOCAL_HELP)
    hosts.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="capture, saved facts or support bundle to read; no host is contacted",
    )
    add_form_argument(parser)
    output = option_group(parser, OUTPUT)
    output.add_argument(
        "--out", type=Path, metavar="FILE", help="file for the facts as JSON (default: print the facts)"
    )
    output.add_argument("--raw", action="store_true", help="also include the redacted output of the tools")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import facts

    return facts.run(args)
