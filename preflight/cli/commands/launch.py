"""Print the exact command and environment of every host for a job; or read start scripts and say what is wrong.

  preflight launch --launcher torchrun -- train.py --epochs 10
  preflight launch --launcher mpirun --devices 0,1 -o json -- train.py
  preflight launch --launcher shell -o scripts --dir start -- train.py
  preflight launch --check run-node01.sh run-node02.sh

Nothing is started. The host NIC and its address, where the inventory has no name or HCCL_IF_IP is wanted, are asked
of the hosts in one look; --from FACTS takes them from saved facts or a capture, --offline leaves them out. After --
stands the program with its arguments, which are passed on as they are. Launchers, variables and all that is looked
for: docs/launch.md.
"""

import argparse
from pathlib import Path

from preflight.cli.options import add_inventory_arguments, devices
from preflight.launch.job import JobLauncher
from preflight.model.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    names = [str(launcher) for launcher in JobLauncher]
    parser.add_argument(
        "--launcher", choices=names, default="torchrun", metavar="NAME", help=f"{', '.join(names)} (default: torchrun)"
    )
    parser.add_argument(
        "--devices", type=devices, metavar="LIST", help="of every host only these, such as 0-1 (default: all)"
    )
    parser.add_argument("--master-port", type=int, metavar="N", help="default: the inventory's, else 29500")
    parser.add_argument("--rank-table", metavar="PATH", help="where the rank table is on every host, for HCCL")
    parser.add_argument(
        "--rank-table-copy",
        type=Path,
        metavar="FILE",
        help="that table, here: ranks as it has them (default: as preflight ranktable writes it)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="one more variable, or ours otherwise (repeatable)",
    )
    parser.add_argument(
        "--forward",
        action="append",
        default=[],
        metavar="NAME",
        help="mpirun: pass on a variable of the shell (-x NAME)",
    )
    parser.add_argument("--mpi-home", metavar="DIR", help="mpirun is DIR/bin/mpirun (default: on PATH)")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FACTS", help="host NICs from saved facts or a capture"
    )
    parser.add_argument("--offline", action="store_true", help="contact nobody; without what only the hosts know")
    parser.add_argument("-o", "--output", choices=("shell", "json", "scripts"), default="shell")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="where -o scripts writes HOST.sh")
    parser.add_argument("--force", action="store_true", help="write over scripts that are there")
    parser.add_argument("--check", nargs="*", metavar="SCRIPT", help="read start scripts, one or one a host")
    parser.add_argument("program", nargs="*", metavar="-- PROGRAM", help="what is started, with its arguments")


def run(args: argparse.Namespace) -> int:
    if args.limit == "":
        raise UsageError("--limit is empty; leave it out for all hosts")
    if args.check is not None:
        from preflight.cli.jobs.launch_check import check  # scripts are read without the modules of a job

        return check(args)
    from preflight.cli.jobs.launch import launch

    return launch(args)
