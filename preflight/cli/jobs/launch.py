"""`preflight launch`: usage of the command, before any host is contacted."""

import argparse
from pathlib import Path

from preflight.app.jobs.job_rules import refuse_port
from preflight.cli.jobs.launch_job import print_job
from preflight.launch.job import JobLauncher
from preflight.model.errors import UsageError


def launch(args: argparse.Namespace) -> int:
    """Print or write the commands of a job."""
    _refuse_wrong_usage(args)
    print_job(args)
    return 0


def _refuse_wrong_usage(args: argparse.Namespace) -> None:
    """Raise UsageError, before any host is contacted."""
    if not args.program or not args.program[0] or args.program == ["-m"]:
        raise UsageError("no program to start. Example: preflight launch --launcher torchrun -- train.py")
    if (args.output == "scripts") != bool(args.dir):
        raise UsageError("-o scripts and --dir DIR must be used together")
    refuse_port(args.master_port)
    if args.source and args.offline:
        raise UsageError("--from and --offline cannot be combined")
    _refuse_wrong_table(args.rank_table, args.rank_table_copy)
    _refuse_wrong_mpi(args)


def _refuse_wrong_table(path: str | None, copy: Path | None) -> None:
    if path is not None and not path.startswith("/"):
        raise UsageError(f"--rank-table {path!r}: HCCL needs an absolute path")
    if copy and not path:
        raise UsageError("--rank-table-copy needs --rank-table PATH, the path of the table on the hosts")


def _refuse_wrong_mpi(args: argparse.Namespace) -> None:
    if (args.forward or args.mpi_home is not None) and args.launcher != JobLauncher.MPIRUN:
        raise UsageError(f"--forward and --mpi-home are for mpirun, not for {args.launcher}")
    if args.mpi_home is not None and not args.mpi_home.startswith("/"):
        raise UsageError(f"--mpi-home {args.mpi_home!r} is not an absolute path")
    for name in args.forward:
        if not name.isidentifier() or not name.isascii():
            raise UsageError(f"--forward {name!r} is not a variable name")
