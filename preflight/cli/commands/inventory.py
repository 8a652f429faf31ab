"""Convert host lists of other tools to an inventory, or an inventory to such a host list.

  preflight inventory import hostfile -o hosts.toml
  preflight inventory import --from slurm-env --product nvidia -o hosts.toml
  ansible-inventory --list | preflight inventory import --group npu -
  preflight inventory export --to openmpi --limit 'node[01-04]' -o hostfile

No host is contacted. docs/import-export.md describes the formats.
"""

import argparse
from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY
from preflight.cli.option_texts import FORCE_HELP, LIMIT_HELP, OUTPUT
from preflight.cli.options import device_count, option_group, product_name
from preflight.hostlists.formats import FORMATS
from preflight.model.cluster import Product

_IMPORT = """Convert a host list to an inventory.

  preflight inventory import hostfile --product nvidia -o hosts.toml
  preflight inventory import hccl.json --device-prefix 24 -o hosts.toml

The format is detected automatically. preflight prints its assumptions, and writes them at the top of
the inventory.
"""
_EXPORT = """Convert an inventory to a host list for another tool.

  preflight inventory export --to openmpi -o hostfile
  preflight inventory export --to horovod --addresses
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    importing = actions.add_parser(
        "import", help="convert a host list to an inventory", description=_IMPORT, allow_abbrev=False
    )
    _add_import_arguments(importing)
    exporting = actions.add_parser(
        "export", help="convert an inventory to a host list", description=_EXPORT, allow_abbrev=False
    )
    _add_export_arguments(exporting)


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="host list, or - for stdin; not needed with --from slurm-env"
    )
    source = parser.add_argument_group("host list")
    source.add_argument(
        "--from",
        dest="format",
        choices=FORMATS,
        metavar="FORMAT",
        help=f"format of the host list: {', '.join(FORMATS)} (default: detected)",
    )
    source.add_argument(
        "--group", metavar="GROUP", default="", help="Ansible or ClusterShell group to import (default: all groups)"
    )
    target = parser.add_argument_group("inventory")
    target.add_argument(
        "--base",
        type=Path,
        metavar="FILE",
        help="inventory to copy all settings from, except the hosts (default: none)",
    )
    target.add_argument("--name", default="", help="name of the cluster")
    target.add_argument(
        "--product", default="", type=product_name, metavar="PRODUCT", help=f"product: {', '.join(Product)}"
    )
    target.add_argument("--user", default="", help="ssh account, if the host list has none")
    target.add_argument(
        "--devices",
        type=device_count,
        metavar="N",
        help="number of devices per host (default: the number of slots in the host list)",
    )
    target.add_argument(
        "--device-prefix",
        type=_prefix,
        metavar="LENGTH",
        dest="prefix",
        help="prefix length of the addresses in a rank table, such as 24; with 0, the addresses are left out",
    )
    _add_file_arguments(parser, "inventory")


def _add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        dest="format",
        choices=FORMATS,
        metavar="FORMAT",
        required=True,
        help=f"format of the host list: {', '.join(FORMATS)} (required)",
    )
    parser.add_argument(
        "-i",
        "--inventory",
        type=Path,
        default=DEFAULT_INVENTORY,
        metavar="FILE",
        help="inventory (default: hosts.toml)",
    )
    parser.add_argument("--limit", metavar="HOSTS", help=LIMIT_HELP)
    parser.add_argument("--addresses", action="store_true", help="write addresses instead of host names")
    _add_file_arguments(parser, "host list")


def _add_file_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    output = option_group(parser, OUTPUT)
    output.add_argument("-o", "--out", type=Path, metavar="FILE", help=f"{kind} to write (default: stdout)")
    output.add_argument("--force", action="store_true", help=FORCE_HELP)


def _prefix(text: str) -> int:
    if not text.isdigit() or len(text) > 2 or int(text) > 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length from 0 to 30")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import host_lists

    return host_lists.run(args)
