"""Write an inventory from a cluster that is already configured.

  preflight learn --hosts 'node[01-16]' --user root -o learned.toml
  preflight learn --inventory hosts.toml -o learned.toml

No host is changed. Addresses, gateways and detect addresses come from the devices. If an address
plan gives exactly these values, the new inventory has that plan. Without such a plan, it has a
list for each host. All other settings of the given inventory stay, but its comments are lost.

Contradictions between hosts become comments in the file, and are printed at the end. Exit codes: 1
hosts contradict each other, 3 a host was not reached.
"""

import argparse
from pathlib import Path

from preflight.cli.option_texts import FORCE_HELP, OUTPUT
from preflight.cli.options import add_inventory_arguments, option_group


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.set_defaults(inventory=None)
    hosts = parser.add_argument_group("hosts without an inventory")
    hosts.add_argument("--hosts", metavar="HOSTS", help="names of the hosts, such as node[01-16]")
    hosts.add_argument(
        "--address", metavar="ADDRESSES", help="addresses of the hosts in --hosts, as a range of the same length"
    )
    hosts.add_argument("--user", metavar="USER", help="ssh account on the hosts in --hosts")
    hosts.add_argument("--sudo", action="store_true", help="use sudo to become root on the hosts in --hosts")
    output = option_group(parser, OUTPUT)
    output.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="inventory to write (required)")
    output.add_argument("--force", action="store_true", help=FORCE_HELP)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import learn

    return learn.run(args)
