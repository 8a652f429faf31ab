"""Print the command and environment that start a job on each host, or check start scripts.

  preflight launch --launcher torchrun -- train.py --epochs 10
  preflight launch --launcher mpirun --devices 0,1 -o json -- train.py
  preflight launch --launcher shell -o scripts --dir start -- train.py
  preflight launch --check run-node01.sh run-node02.sh

The command starts nothing. The program and its arguments follow -- and are passed on unchanged. If
the inventory has no host NIC, or HCCL_IF_IP is needed, one round trip reads the host NIC and its
address. With --from FACTS, both are read from saved facts or a capture. With --offline, both are
left out. docs/launch.md lists the launchers, the variables and the problems that --check finds.
"""

import argparse
from pathlib import Path

from preflight.cli.option_texts import ENV_HELP, HOSTS, MASTER_PORT_HELP, OUTPUT
from preflight.cli.options import add_inventory_arguments, devices, option_group
from preflight.launch.job import JobLauncher
from preflight.model.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    hosts = option_group(parser, HOSTS)
    hosts.add_argument(
        "--from", dest="source", type=Path, metavar="FACTS", help="saved facts or capture to read the host NICs from"
    )
    hosts.add_argument(
        "--offline", action="store_true", help="contact no host, and leave out values that only the hosts have"
    )
    _add_job_arguments(parser)
    output = option_group(parser, OUTPUT)
    output.add_argument(
        "-o",
        "--output",
        choices=("shell", "json", "scripts"),
        default="shell",
        help="output format; scripts writes one file per host (default: shell)",
    )
    output.add_argument("--dir", type=Path, metavar="DIR", help="folder for the HOST.sh files that -o scripts writes")
    output.add_argument("--force", action="store_true", help="overwrite existing scripts")
    parser.add_argument(
        "--check", nargs="*", metavar="SCRIPT", help="start scripts to check: one for all hosts, or one per host"
    )
    parser.add_argument("program", nargs="*", metavar="-- PROGRAM", help="program to start, with its arguments")


def _add_job_arguments(parser: argparse.ArgumentParser) -> None:
    job = parser.add_argument_group("job")
    names = [str(launcher) for launcher in JobLauncher]
    job.add_argument(
        "--launcher",
        choices=names,
        default="torchrun",
        metavar="NAME",
        help=f"launcher: {', '.join(names)} (default: torchrun)",
    )
    job.add_argument(
        "--devices", type=devices, metavar="LIST", help="devices to use on each host, such as 0-1 (default: all)"
    )
    job.add_argument("--master-port", type=int, metavar="N", help=MASTER_PORT_HELP)
    job.add_argument("--rank-table", metavar="PATH", help="path of the rank table on each host, for HCCL")
    job.add_argument(
        "--rank-table-copy",
        type=Path,
        metavar="FILE",
        help="local copy of the rank table, to read its ranks (default: ranks as preflight ranktable writes them)",
    )
    job.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help=ENV_HELP)
    job.add_argument(
        "--forward",
        action="append",
        default=[],
        metavar="NAME",
        help="with mpirun: shell variable to pass on (-x NAME); repeatable",
    )
    job.add_argument(
        "--mpi-home", metavar="DIR", help="MPI folder, which contains bin/mpirun (default: mpirun on PATH)"
    )


def run(args: argparse.Namespace) -> int:
    if args.limit == "":
        raise UsageError("--limit is empty. For all hosts, remove it.")
    if args.check is not None:
        from preflight.cli.jobs.launch_check import check  # scripts are read without the modules of a job

        return check(args)
    from preflight.cli.jobs.launch import launch

    return launch(args)
