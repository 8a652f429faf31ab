"""The job of `preflight launch`: from options, inventory and facts to the printed commands."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from preflight.app.files import refuse_existing, write_whole
from preflight.app.jobs.job_rules import master_port, refuse_job
from preflight.app.saved.load_saved import load_saved
from preflight.app.session import session
from preflight.cli.options import host_options
from preflight.cli.text_file import LARGEST_RANK_TABLE, text_of
from preflight.cli.wrapped import wrapped
from preflight.facts.types import ClusterFacts
from preflight.inventory import fold, limit, load
from preflight.launch.document import document
from preflight.launch.environment import checked
from preflight.launch.job import LOOPBACK, HostLaunch, JobHost, JobLauncher, LaunchedJob
from preflight.launch.launchers import launches
from preflight.launch.launchers.one_host import TAKE_A_PORT, ssh_port
from preflight.launch.places import common_network, must_look, on_loopback, places, wants_addresses
from preflight.launch.rank_order import as_in, sound
from preflight.launch.text import blocks, script
from preflight.model.cluster import OVER_SSH, Cluster, Host
from preflight.model.errors import PreflightError, UsageError
from preflight.model.text import printable
from preflight.ranktable.build import in_order
from preflight.ranktable.types import RankTable

_OURS = "printed by preflight for bash"  # in the head of every script


@dataclass
class _JobPlan:
    """The hosts of a job in the order of their ranks, their facts, and notes for the user."""

    cluster: Cluster
    hosts: Sequence[Host]
    facts: ClusterFacts | None = None
    table: RankTable | None = None
    notes: list[str] = field(default_factory=list)


def print_job(args: argparse.Namespace) -> None:
    """Print or write the commands of a job."""
    job, notes = _job(args)
    started = launches(job)
    if args.output == "json":
        print(document(job, started, notes))
    elif args.output == "scripts":
        _write(args, job, started, notes)
    else:
        print(blocks(started, job.cluster.probe, notes, fold), end="")


def _job(args: argparse.Namespace) -> tuple[LaunchedJob, list[str]]:
    """Return the job, and notes for the user."""
    plan = _plan(args)
    cluster, launcher = plan.cluster, JobLauncher(args.launcher)
    port = args.master_port or master_port(cluster, launcher)
    own = checked(args.env, cluster.product, len(plan.hosts))
    refuse_job(cluster, port, places(cluster, plan.hosts, args.devices, None))
    _find_nics(args, plan)
    job = LaunchedJob(
        launcher,
        cluster,
        tuple(_ordered(args, plan)),
        tuple(args.program),
        port,
        own,
        tuple(args.forward),
        args.rank_table or "",
        common_network(plan.hosts, plan.facts),
        (args.mpi_home or "").rstrip("/"),
    )
    notes = plan.notes
    if cluster.ports and port not in cluster.ports:
        notes.append(f"port {port} is not in the inventory, so it is neither reserved nor open in the firewall")
    return job, [*notes, *_ssh_notes(job, plan.hosts)]


def _plan(args: argparse.Namespace) -> _JobPlan:
    """Return the hosts of the inventory or of saved facts, in the order of the rank table if there is one."""
    first_note = f"{args.launcher}, {_OURS}; see docs/launch.md"
    if args.source:
        cluster, hosts, facts, note = load_saved(args.source, args.inventory, args.limit)
        plan = _JobPlan(cluster, hosts, facts, notes=[first_note, f"host NICs: {note}"])
    else:
        cluster = load(args.inventory)
        plan = _JobPlan(cluster, limit(cluster, args.limit) if args.limit else cluster.hosts, notes=[first_note])
    if args.rank_table:
        plan.hosts, plan.table = _ranked(args, cluster, plan.hosts)
    return plan


def _find_nics(args: argparse.Namespace, plan: _JobPlan) -> None:
    """Ask the hosts for their NICs, unless the job needs none or runs --offline."""
    cluster, hosts = plan.cluster, plan.hosts
    if on_loopback(hosts):
        plan.notes.append(f"one host: its ranks use {LOOPBACK} and no host NIC")
    elif plan.facts is not None or not (must_look(hosts) or wants_addresses(cluster, JobLauncher(args.launcher))):
        return
    elif not args.offline:
        with session(host_options(args), cluster) as s:
            plan.facts = s.collect(hosts, sections=("network",))
        plan.notes.append("host NICs: collected from the hosts just now")
    elif must_look(hosts):
        plan.notes.append("--offline: host NICs are unknown, so the libraries choose them")
    else:
        plan.notes.append("--offline: HCCL_IF_IP is not set, since the addresses of the host NICs are unknown")


def _ordered(args: argparse.Namespace, plan: _JobPlan) -> list[JobHost]:
    """Return the job's hosts in the order of their ranks."""
    in_plan = places(plan.cluster, plan.hosts, args.devices, plan.facts)
    if plan.table:
        in_plan = as_in(plan.table, plan.hosts, in_plan, plan.facts)
        plan.notes.append(f"ranks: as in {args.rank_table_copy}")
    elif args.rank_table:
        plan.notes.append(
            "ranks: hosts are sorted lexically by address, as preflight ranktable does. For another "
            "order, add --rank-table-copy FILE."
        )
    return in_plan


def _ssh_notes(job: LaunchedJob, hosts: Sequence[Host]) -> Iterator[str]:
    """Yield a note on the first host's ssh, where no option of the launcher has the others' users and ports."""
    if job.launcher not in OVER_SSH or len(hosts) < 2:
        return
    several = len({host.ssh.user for host in hosts}) > 1
    ports = {host.ssh.port or 22 for host in hosts} != {22}
    by_option = job.launcher in TAKE_A_PORT and ssh_port(job) is not None
    if several or (ports and not by_option):
        yield (
            f"{job.launcher} uses plain ssh between hosts. Put the users and ports of [ssh] in the inventory into "
            f"~/.ssh/config on {job.places[0].name}."
        )


def _ranked(
    args: argparse.Namespace, cluster: Cluster, hosts: Sequence[Host]
) -> tuple[Sequence[Host], RankTable | None]:
    """Return the hosts in the order of a table by `preflight ranktable`; or unchanged, with the given table."""
    if not cluster.product.is_npu:
        raise UsageError(f"--rank-table is for NPUs, but the hosts are {cluster.product}")
    if args.rank_table_copy:
        text = text_of(str(args.rank_table_copy), LARGEST_RANK_TABLE, "rank table")
        return hosts, sound(text, str(args.rank_table_copy), cluster)
    if cluster.superpod and len(hosts) > 1:
        raise UsageError(
            "--rank-table needs --rank-table-copy FILE on super-pods, since only the table has their servers' order"
        )
    return in_order(hosts), None


def _head(path: Path) -> str:
    try:
        with path.open(errors="replace") as file:
            return " ".join(file.read(1000).replace("#", "").split())  # comments are wrapped
    except OSError:
        return ""


def _write(args: argparse.Namespace, job: LaunchedJob, started: Sequence[HostLaunch], notes: list[str]) -> None:
    """Write all scripts or none: a folder with the scripts of two jobs would be started as one."""
    paths = [args.dir / f"{launch.host}.sh" for launch in started]
    texts = [script(launch, job.cluster.probe, [f"{launch.host}: {notes[0]}", *notes[1:]]) for launch in started]
    _refuse_other_scripts(args, paths)
    try:
        args.dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PreflightError(f"cannot make the folder {args.dir}: {error.strerror}") from error
    for path, text in zip(paths, texts, strict=True):
        write_whole(path, text, "the script", 0o755)
    for note in notes[1:]:
        print("\n".join(wrapped(note)), file=sys.stderr)
    alone = f", for the ranks of all {len(job.places)} hosts" if len(started) < len(job.places) else ""
    count = f"{len(paths)} script{'' if len(paths) == 1 else 's'}"
    print(printable(f"wrote {count} to {args.dir}{alone}"), file=sys.stderr)


def _refuse_other_scripts(args: argparse.Namespace, paths: Sequence[Path]) -> None:
    for path in paths:
        refuse_existing(path, force=args.force)
    for path in sorted(set(args.dir.glob("*.sh")) - set(paths)):
        if _OURS in _head(path):
            raise UsageError(f"{path} belongs to another job and would start with this one. Remove it.")
