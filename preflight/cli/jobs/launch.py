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
from collections.abc import Sequence
from pathlib import Path

from preflight.app.session import add_inventory_arguments, devices
from preflight.launch.job import FOR_MASTERS, JobHost, Launcher
from preflight.model.cluster import Cluster
from preflight.model.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    names = [str(launcher) for launcher in Launcher]
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
        from preflight.cli.jobs.launch_check import check

        return check(args)
    _refuse_wrong_usage(args)
    from preflight.cli.jobs.launch_job import print_job

    print_job(args)
    return 0


def _refuse_wrong_usage(args: argparse.Namespace) -> None:
    """Raise UsageError, before any host is contacted."""
    if not args.program or not args.program[0] or args.program == ["-m"]:
        raise UsageError("say what is to be started: preflight launch --launcher torchrun -- train.py")
    if (args.output == "scripts") != bool(args.dir):
        raise UsageError("-o scripts and --dir DIR go together")
    refuse_port(args.master_port)
    if args.source and args.offline:
        raise UsageError("--from has what --offline would do without; leave out one of them")
    _refuse_wrong_table(args.rank_table, args.rank_table_copy)
    _refuse_wrong_mpi(args)


def _refuse_wrong_table(path: str | None, copy: Path | None) -> None:
    if path is not None and not path.startswith("/"):
        raise UsageError(f"--rank-table {path!r}: HCCL wants an absolute path")
    if copy and not path:
        raise UsageError("--rank-table-copy is a copy of the table that --rank-table names; say where that is")


def _refuse_wrong_mpi(args: argparse.Namespace) -> None:
    if (args.forward or args.mpi_home is not None) and args.launcher != Launcher.MPIRUN:
        raise UsageError(f"--forward and --mpi-home are mpirun's; {args.launcher} has no use for them")
    if args.mpi_home is not None and not args.mpi_home.startswith("/"):
        raise UsageError(f"--mpi-home {args.mpi_home!r}: mpirun is started on every host, so write the whole path")
    for name in args.forward:
        if not name.isidentifier() or not name.isascii():
            raise UsageError(f"--forward {name!r} is no variable's name")


def refuse_port(port: int | None) -> None:
    """Raise UsageError for a --master-port out of range."""
    if port is not None and not 1024 <= port <= 65535:
        raise UsageError(f"--master-port {port} is not a port from 1024 to 65535")


def refuse_job(cluster: Cluster, port: int, places: Sequence[JobHost]) -> None:
    """Raise UsageError for a job that would fail on every host, before any host is contacted."""
    from preflight.ranktable.device_sets import device_set_problems

    if port in cluster.ports and (purpose := cluster.purpose(port)) not in FOR_MASTERS:
        raise UsageError(f"--master-port {port} is {purpose}'s in the inventory; name another")
    if cluster.probe.python.startswith("~"):
        raise UsageError(f"[probe] python = {cluster.probe.python!r}: nobody expands ~ there; write the whole path")
    if cluster.probe.backend == "hccl":
        sets = [((), place.name, place.devices) for place in places]
        for problem in device_set_problems(cluster.product, sets):
            if not problem.warning:
                raise UsageError(problem.text)


def master_port(cluster: Cluster, launcher: Launcher) -> int:
    """Return the inventory's port for the launcher or for masters, which is reserved and open."""
    by_name = {name: port for port, name in cluster.port_names.items()}
    own = by_name.get("mindspore") if launcher is Launcher.MSRUN else None
    return own or by_name.get("master", 29500)
