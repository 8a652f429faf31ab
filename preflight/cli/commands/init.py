"""Write a first inventory: the hosts, their product, and comments on what to add.

  preflight init
  preflight init --hosts 'node[01-04]' --product atlas-a2
  preflight init --hosts 'gpu[1-2]' --address '10.1.0.[11-12]' --product nvidia
  preflight init --example > example.toml      # an inventory with every table

Without --hosts or --product, preflight asks for them on the terminal. No host is contacted, and no
file is overwritten. The written values are enough for a first check.
"""

import argparse
from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY
from preflight.cli.option_texts import HOSTS, OUTPUT
from preflight.cli.options import device_count, option_group, product_name
from preflight.model.cluster import Product


def add_arguments(parser: argparse.ArgumentParser) -> None:
    hosts = option_group(parser, HOSTS)
    hosts.add_argument("--hosts", metavar="HOSTS", help="names of the hosts, such as node[01-16] (default: asked for)")
    hosts.add_argument(
        "--address",
        metavar="ADDRESSES",
        help="addresses of the hosts, as a range of the same length (default: the names)",
    )
    hosts.add_argument("--user", metavar="USER", help="ssh account on the hosts (default: from ~/.ssh/config)")
    hosts.add_argument("--port", type=int, metavar="PORT", help="ssh port of the hosts (default: from ~/.ssh/config)")
    hosts.add_argument("--sudo", action="store_true", help="use sudo to become root on the hosts")
    cluster = option_group(parser, "cluster")
    cluster.add_argument(
        "--product", type=product_name, metavar="PRODUCT", help=f"product: {', '.join(Product)} (default: asked for)"
    )
    cluster.add_argument(
        "--devices", type=device_count, metavar="N", help="number of devices per host (default: 8, or 0 on cpu)"
    )
    cluster.add_argument("--name", default="cluster", help="name of the cluster (default: cluster)")
    output = option_group(parser, OUTPUT)
    output.add_argument(
        "-o",
        "--out",
        type=Path,
        default=DEFAULT_INVENTORY,
        metavar="FILE",
        help="inventory to write (default: hosts.toml)",
    )
    output.add_argument("--example", action="store_true", help="print an inventory with every table; write no file")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import init

    return init.run(args)
