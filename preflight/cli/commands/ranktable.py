"""Write the rank table from the addresses of the devices, or check an existing rank table.

  preflight ranktable -i hosts.toml -o hccl.json
  preflight ranktable -i hosts.toml --push /data/hccl.json
  preflight ranktable --check hccl.json [-i hosts.toml]

The rank table has the current addresses of the devices. If these differ from the planned
addresses, the report lists them, and the exit code is 1. If a host was not read, no table is
written, and the exit code is 3. Servers are sorted lexically by server_id, as MindSpore
requires and HCCL accepts.

--check without -i contacts no host. The exit code is 2 if the table breaks an HCCL rule. With -i,
the exit code is 1 if the table differs from the hosts.
"""

import argparse
from pathlib import Path

from preflight.cli.option_texts import CHANGES, DRY_RUN_HELP, HOSTS, OUTPUT
from preflight.cli.options import add_inventory_arguments, devices, option_group
from preflight.provision.rollout import Batch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.set_defaults(inventory=None)
    option_group(parser, HOSTS).add_argument(
        "--from", dest="source", type=Path, metavar="FACTS", help="saved facts or capture; no host is contacted"
    )
    _add_table_arguments(parser)
    changes = option_group(parser, CHANGES)
    changes.add_argument("--push", metavar="PATH", help="absolute path for the table on all hosts")
    changes.add_argument("--dry-run", action="store_true", help=f"with --push: {DRY_RUN_HELP}")
    changes.add_argument("-y", "--yes", action="store_true", help="with --push: change hosts without asking")
    output = option_group(parser, OUTPUT)
    output.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="file for the table, or - for stdout; with --check, the output format: console or json",
    )
    output.add_argument("--force", action="store_true", help="overwrite existing files")
    # The same options as for all changes.
    parser.set_defaults(canary=None, batch=Batch(), max_fail=0)


def _add_table_arguments(parser: argparse.ArgumentParser) -> None:
    table = parser.add_argument_group("rank table")
    table.add_argument(
        "--check",
        type=Path,
        metavar="FILE",
        help="rank table to check; with -i or --from, it is also compared with the hosts",
    )
    table.add_argument(
        "--devices",
        type=devices,
        default=(),
        metavar="IDS",
        help="devices to use on each host, such as 0-3 or 0,1 (default: all)",
    )
    table.add_argument(
        "--order",
        choices=("mindspore", "inventory"),
        default="mindspore",
        help="order of servers: mindspore (lexical by server_id) or inventory (default: mindspore)",
    )
    table.add_argument(
        "--format",
        choices=("1.0", "1.2"),
        default="",
        help="version of the table (default: 1.2 if the inventory has superpod = true, else 1.0)",
    )


def run(args: argparse.Namespace) -> int:
    if args.check:
        from preflight.cli.jobs.ranktable_check import check  # a table is judged without the modules of a session

        return check(args)
    from preflight.cli.jobs.ranktable import write_or_push

    return write_or_push(args)
