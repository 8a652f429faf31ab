"""Keep what the vendors' tools print on a real site, as one file that any later version of preflight reads again.

  preflight capture --inventory hosts.toml
  preflight capture --inventory hosts.toml --anonymous --out /tmp/site.json
  preflight check --from preflight-capture-….json

Nothing is changed or written on the hosts. The file is its owner's alone. What looks like a password, key or token and
all serial numbers are taken out of it. With --anonymous machines, switches, accounts, domains and addresses have other
names, the same for the same. Public domains, such as nvidia.com and github.com, stay. Where a known name would be left,
nothing is written. Read the file before you give it away: it holds what tools and files say, also names of folders.
"""

import argparse
from pathlib import Path

from preflight.cli.options import add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.add_argument("--local", action="store_true", help="look at this machine; no inventory is read")
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="PLACE", help="a folder, or the file to write (default: here)"
    )
    parser.add_argument("--anonymous", action="store_true", help="with pseudonyms for host names and addresses")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import capture

    return capture.run(args)
