"""Write an inventory from a cluster that is already configured. Nothing is changed on the hosts.

  preflight learn --hosts 'node[01-16]' --user root -o learned.toml
  preflight learn --inventory hosts.toml -o learned.toml

Addresses, gateways and detect addresses come from the devices: as a plan, where one of the inventory's plans gives just
these, or written out host by host. What the given inventory says of everything else is kept; its comments are not. What
contradicts itself on the hosts stands in the file as a comment and is said at the end, with exit code 1; where a host
was not reached, that is 3.
"""

import argparse
from pathlib import Path

from preflight.cli.options import add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.set_defaults(inventory=None)
    parser.add_argument("--hosts", metavar="HOSTS", help="without an inventory: the hosts, such as node[01-16]")
    parser.add_argument("--address", metavar="ADDRESSES", help="where these hosts are, as a range of the same length")
    parser.add_argument("--user", metavar="USER", help="who to log in as on these hosts")
    parser.add_argument("--sudo", action="store_true", help="who becomes root with sudo there")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the inventory to write")
    parser.add_argument("--force", action="store_true", help="write FILE even if it is there already")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import learn

    return learn.run(args)
