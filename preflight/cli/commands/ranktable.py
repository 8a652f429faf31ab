"""Write the rank table of the inventory's hosts from what their devices have; or judge one that is there.

  preflight ranktable -i hosts.toml -o hccl.json
  preflight ranktable -i hosts.toml --push /data/hccl.json
  preflight ranktable --check hccl.json [-i hosts.toml]

The addresses are those of the devices, not those that are planned: where both differ, that is said, and ends with 1.
Where a host was not seen nothing is written, and it ends with 3. Servers stand in the lexical order of server_id, as
MindSpore wants it and HCCL takes it. --check without an inventory contacts nobody, and ends with 2 where the table
breaks a rule of HCCL; with one, it ends with 1 where hosts are otherwise.
"""

import argparse
from pathlib import Path

from preflight.cli.options import add_inventory_arguments, devices
from preflight.provision.rollout import Batch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.set_defaults(inventory=None)
    parser.add_argument("--from", dest="source", type=Path, metavar="FACTS", help="saved facts, or a capture: offline")
    parser.add_argument(
        "-o", "--out", metavar="FILE", help="where to write the table; - is stdout. With --check: console or json"
    )
    parser.add_argument("--force", action="store_true", help="write over what is there already")
    parser.add_argument("--devices", type=devices, default=(), metavar="IDS", help="of every host: 0-3, or 0,1")
    parser.add_argument(
        "--order",
        choices=("mindspore", "inventory"),
        default="mindspore",
        help="of servers: lexical by server_id (the default), or as the inventory has them",
    )
    parser.add_argument(
        "--format",
        choices=("1.0", "1.2"),
        default="",
        help="default: 1.2 where the inventory says superpod = true, else 1.0",
    )
    parser.add_argument("--push", metavar="PATH", help="put the table there on every host, at this absolute path")
    parser.add_argument("--dry-run", action="store_true", help="with --push: only show what would be changed")
    parser.add_argument(
        "--check", type=Path, metavar="FILE", help="judge this rank table; with -i or --from, beside its hosts"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="with --push: do not ask")
    # The same options as for all changes.
    parser.set_defaults(canary=None, batch=Batch(), max_fail=0)


def run(args: argparse.Namespace) -> int:
    if args.check:
        from preflight.cli.jobs.ranktable_check import check  # a table is judged without the modules of a session

        return check(args)
    from preflight.cli.jobs.ranktable import write_or_push

    return write_or_push(args)
