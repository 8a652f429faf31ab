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
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from preflight.cli.common import add_inventory_arguments, devices, refuse_existing, session, write_whole
from preflight.cli.text_file import LARGEST_RANK_TABLE, text_of
from preflight.cli.wrapped import wrapped
from preflight.launch.job import FOR_MASTERS, LOOPBACK, Job, Launcher
from preflight.model.cluster import OVER_SSH
from preflight.model.errors import PreflightError, UsageError
from preflight.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from preflight.facts.types import ClusterFacts
    from preflight.launch.job import HostLaunch, Place
    from preflight.model.cluster import Cluster, Host
    from preflight.ranktable.types import RankTable

_OURS = "printed by preflight for bash"  # in the head of every script


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    names = [str(it) for it in Launcher]
    parser.add_argument(
        "--launcher", choices=names, default="torchrun", metavar="NAME", help=f"{', '.join(names)} (default: torchrun)"
    )
    parser.add_argument(
        "--devices", type=devices, metavar="LIST", help="of every host only these, such as 0-1 (default: all)"
    )
    parser.add_argument("--master-port", type=int, metavar="N", help="default: the inventory's, else 29500")
    parser.add_argument("--rank-table", metavar="PATH", help="where the rank table is on every host, for HCCL")
    parser.add_argument(
        "--rank-table-copy", type=Path, metavar="FILE",
        help="that table, here: ranks as it has them (default: as preflight ranktable writes it)",
    )  # fmt: skip
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
        from preflight.cli.launch_check import check

        return check(args)
    _refuse_wrong_usage(args)
    job, notes = _job(args)
    from preflight.launch.launchers import launches

    started = launches(job)
    if args.output == "json":
        from preflight.launch.document import document

        print(document(job, started, notes))
    elif args.output == "scripts":
        _write(args, job, started, notes)
    else:
        from preflight.inventory import fold
        from preflight.launch.text import blocks

        print(blocks(started, job.cluster.probe, notes, fold), end="")
    return 0


def _refuse_wrong_usage(args: argparse.Namespace) -> None:
    """Raises UsageError, before anybody is contacted."""
    if not args.program or not args.program[0] or args.program == ["-m"]:
        raise UsageError("say what is to be started: preflight launch --launcher torchrun -- train.py")
    if (args.output == "scripts") != bool(args.dir):
        raise UsageError("-o scripts and --dir DIR go together")
    refuse_port(args.master_port)
    if args.source and args.offline:
        raise UsageError("--from has what --offline would do without; leave out one of them")
    if args.rank_table is not None and not args.rank_table.startswith("/"):
        raise UsageError(f"--rank-table {args.rank_table!r}: HCCL wants an absolute path")
    if args.rank_table_copy and not args.rank_table:
        raise UsageError("--rank-table-copy is a copy of the table that --rank-table names; say where that is")
    if (args.forward or args.mpi_home is not None) and args.launcher != Launcher.MPIRUN:
        raise UsageError(f"--forward and --mpi-home are mpirun's; {args.launcher} has no use for them")
    if args.mpi_home is not None and not args.mpi_home.startswith("/"):
        raise UsageError(f"--mpi-home {args.mpi_home!r}: mpirun is started on every host, so write the whole path")
    for name in args.forward:
        if not name.isidentifier() or not name.isascii():
            raise UsageError(f"--forward {name!r} is no variable's name")


def _job(args: argparse.Namespace) -> "tuple[Job, list[str]]":
    """The job, and what is to be said of it."""
    from preflight.inventory import limit, load
    from preflight.launch.environment import checked
    from preflight.launch.places import common_network, must_look, on_loopback, places, wants_addresses

    notes = [f"{args.launcher}, {_OURS}; docs/launch.md says what for"]
    facts, table = None, None
    hosts: Sequence[Host]
    if args.source:
        from preflight.cli.saved import load_saved

        cluster, hosts, facts, note = load_saved(args)
        notes.append(f"host NICs: {note}")
    else:
        cluster = load(args.inventory)
        hosts = limit(cluster, args.limit) if args.limit else cluster.hosts
    if args.rank_table:
        hosts, table = _ranked(args, cluster, hosts)
    launcher = Launcher(args.launcher)
    port = args.master_port or master_port(cluster, launcher)
    own = checked(args.env, cluster.product, len(hosts))
    refuse_job(cluster, port, places(cluster, hosts, args.devices, None))
    if on_loopback(hosts):
        notes.append(f"one host: its ranks meet on {LOOPBACK}, and need no host NIC")
    elif facts is None and (must_look(hosts) or wants_addresses(cluster, launcher)):
        if not args.offline:
            facts = _look(args, cluster, hosts)
            notes.append("host NICs: from a look at the hosts just now")
        elif must_look(hosts):
            notes.append("--offline: host NICs are not known, so that libraries choose by their own rules")
        else:
            notes.append("--offline: no HCCL_IF_IP, since the addresses of the host NICs are not known")
    there = places(cluster, hosts, args.devices, facts)
    if table:
        from preflight.launch.rank_order import as_in

        there = as_in(table, hosts, there, facts)
        notes.append(f"ranks: those of {args.rank_table_copy}")
    elif args.rank_table:
        notes.append("ranks: hosts in the lexical order of their addresses, as preflight ranktable writes the table of "
                     "the same hosts and devices; for another order add --rank-table-copy FILE")  # fmt: skip
    job = Job(
        launcher, cluster, tuple(there), tuple(args.program), port, own, tuple(args.forward), args.rank_table or "",
        common_network(hosts, facts), (args.mpi_home or "").rstrip("/"),
    )  # fmt: skip
    if cluster.ports and port not in cluster.ports:
        notes.append(f"port {port} is none of the inventory's: nobody has reserved it or let it through the firewall")
    return job, [*notes, *_of_ssh(job, hosts)]


def _of_ssh(job: Job, hosts: "Sequence[Host]") -> "Iterator[str]":
    """What ssh of the first host has to know of the others, where no option of the launcher tells it."""
    from preflight.launch.launchers.one_host import TAKE_A_PORT, ssh_port

    several = len({host.ssh.user for host in hosts}) > 1
    ports = {host.ssh.port or 22 for host in hosts} != {22}
    told = job.launcher in TAKE_A_PORT and ssh_port(job) is not None
    if job.launcher in OVER_SSH and len(hosts) > 1 and (several or (ports and not told)):
        yield (f"{job.launcher} goes from host to host by plain ssh: what [ssh] of the inventory says of users and "
               f"ports has to be in ~/.ssh/config on {job.places[0].name}, too")  # fmt: skip


def refuse_port(port: int | None) -> None:
    """Raises UsageError for a --master-port that is none."""
    if port is not None and not 1024 <= port <= 65535:
        raise UsageError(f"--master-port {port} is not a port from 1024 to 65535")


def refuse_job(cluster: "Cluster", port: int, places: "Sequence[Place]") -> None:
    """Raises UsageError for what would fail on every host, before anybody is contacted."""
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


def _ranked(
    args: argparse.Namespace, cluster: "Cluster", hosts: "Sequence[Host]"
) -> "tuple[Sequence[Host], RankTable | None]":
    """The hosts in the order of a table by `preflight ranktable`; or as they are, and the table to order them by."""
    from preflight.launch.rank_order import sound
    from preflight.ranktable.build import in_order

    if not cluster.product.is_npu:
        raise UsageError(f"--rank-table is HCCL's, for NPUs; the hosts are {cluster.product}")
    if args.rank_table_copy:
        text = text_of(str(args.rank_table_copy), LARGEST_RANK_TABLE, "rank table")
        return hosts, sound(text, str(args.rank_table_copy), cluster)
    if cluster.superpod and len(hosts) > 1:
        raise UsageError(
            "a rank table keeps the servers of a super-pod together, and which these are is not known here: "
            "add --rank-table-copy FILE, the table itself"
        )
    return in_order(hosts), None


def master_port(cluster: "Cluster", launcher: Launcher) -> int:
    """The inventory's port of that name, else its master's: one that is reserved and let through."""
    named = {name: port for port, name in cluster.port_names.items()}
    own = named.get("mindspore") if launcher is Launcher.MSRUN else None
    return own or named.get("master", 29500)


def _look(args: argparse.Namespace, cluster: "Cluster", hosts: "Sequence[Host]") -> "ClusterFacts":
    from preflight.facts.collect import collect

    with session(args, cluster) as s:
        return collect(
            cluster, hosts, s.transport, progress=s.progress, ports=cluster.ports, pool=args.pool, sections=("network",)
        )


def _head(path: Path) -> str:
    try:
        with path.open(errors="replace") as file:
            return " ".join(file.read(1000).replace("#", "").split())  # comments are wrapped
    except OSError:
        return ""


def _write(args: argparse.Namespace, job: Job, started: "Sequence[HostLaunch]", notes: list[str]) -> None:
    """All or none: a folder with the scripts of two jobs would be started as one."""
    from preflight.launch.text import script

    paths = [args.dir / f"{launch.host}.sh" for launch in started]
    texts = [script(it, job.cluster.probe, [f"{it.host}: {notes[0]}", *notes[1:]]) for it in started]
    for path in paths:
        refuse_existing(path, force=args.force)
    for path in sorted(set(args.dir.glob("*.sh")) - set(paths)):
        if _OURS in _head(path):
            raise UsageError(f"{path} is of another job and would be started with this one; remove it")
    try:
        args.dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PreflightError(f"{args.dir}: no folder for the scripts: {error.strerror}") from error
    for path, text in zip(paths, texts, strict=True):
        write_whole(path, text, "the script", 0o755)
    for note in notes[1:]:
        print("\n".join(wrapped(note)), file=sys.stderr)
    alone = f"; it starts the ranks of all {len(job.places)} hosts" if len(started) < len(job.places) else ""
    print(
        printable(f"{len(paths)} {'script is' if len(paths) == 1 else 'scripts are'} in {args.dir}{alone}"),
        file=sys.stderr,
    )
