"""Other tools' host lists: into an inventory, and out of it again. Nobody is contacted.

  preflight inventory import hostfile -o hosts.toml
  preflight inventory import --from slurm-env --product nvidia -o hosts.toml
  ansible-inventory --list | preflight inventory import --group npu --base old.toml -
  preflight inventory export --to openmpi --limit 'node[01-04]' -o hostfile

Formats: docs/import-export.md.
"""

import argparse
from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY
from preflight.cli.options import product_name
from preflight.hostlists.formats import FORMATS
from preflight.model.cluster import Product


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    taking = actions.add_parser("import", help="a host list to an inventory", allow_abbrev=False)
    taking.add_argument("file", metavar="FILE", nargs="?", help="the list; - is stdin; none with --from slurm-env")
    taking.add_argument("--from", dest="format", choices=FORMATS, metavar="FORMAT", help=", ".join(FORMATS))
    taking.add_argument("--group", metavar="GROUP", default="", help="of Ansible or ClusterShell (all)")
    taking.add_argument("--base", type=Path, metavar="FILE", help="an inventory of which all is kept but other hosts")
    taking.add_argument("--name", default="", help="of the cluster")
    taking.add_argument("--product", default="", type=product_name, metavar="PRODUCT", help=", ".join(Product))
    taking.add_argument("--user", default="", help="who to log in as, where the list does not say")
    taking.add_argument("--devices", type=_devices, metavar="N", help="of every host, whatever the list's slots are")
    taking.add_argument(
        "--device-prefix",
        type=_prefix,
        metavar="LENGTH",
        dest="prefix",
        help="netmask of the addresses in a rank table, such as 24; 0: leave them out",
    )
    taking.add_argument("-o", "--out", type=Path, metavar="FILE", help="the inventory to write (stdout)")
    taking.add_argument("--force", action="store_true", help="write FILE even if it is there already")

    giving = actions.add_parser("export", help="an inventory to a host list", allow_abbrev=False)
    giving.add_argument(
        "--to", dest="format", choices=FORMATS, metavar="FORMAT", required=True, help=", ".join(FORMATS)
    )
    giving.add_argument("-i", "--inventory", type=Path, default=DEFAULT_INVENTORY, metavar="FILE", help="hosts.toml")
    giving.add_argument("--limit", metavar="HOSTS", help="only these hosts, such as node[01-04],node09")
    giving.add_argument("--addresses", action="store_true", help="the hosts' addresses in the place of their names")
    giving.add_argument("-o", "--out", type=Path, metavar="FILE", help="the list to write (stdout)")
    giving.add_argument("--force", action="store_true", help="write FILE even if it is there already")


def _devices(text: str) -> int:
    if not text.isdigit() or len(text) > 2 or int(text) > 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 64")
    return int(text)


def _prefix(text: str) -> int:
    if not text.isdigit() or len(text) > 2 or int(text) > 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length from 1 to 30, or 0")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import host_lists

    return host_lists.run(args)
