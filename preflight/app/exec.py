"""A job on healthy nodes: probed, chosen and started."""

import argparse
import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime

from preflight.app.job_rules import master_port, refuse_job, refuse_port
from preflight.app.options import DEFAULT_INVENTORY
from preflight.app.probe import probed, reached_as_asked
from preflight.app.probed import finish_probe, judged
from preflight.app.rank_table_facts import look
from preflight.app.session import Session, session
from preflight.cli.report_options import refuse_unwritable
from preflight.facts.collect import collect
from preflight.facts.types import ClusterFacts
from preflight.gate.exec_allocation import cluster_of
from preflight.gate.exec_choice import Choice, Wanted, choose
from preflight.gate.exec_command import Told, nodes_of
from preflight.gate.exec_step import Start, Table, by_mpirun, by_srun, packed, scripts
from preflight.hostlists import names, slurm_environment
from preflight.hostlists.host_list import ListSource
from preflight.inventory import fold, load
from preflight.launch.environment import checked
from preflight.launch.job import Job, Launcher
from preflight.launch.places import must_look, places, wants_addresses
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import NotSeenError, PreflightError, UsageError
from preflight.model.gate import Unknown
from preflight.ranktable.build import BuildOptions, build, version_of
from preflight.ranktable.read import read
from preflight.ranktable.rules import judge
from preflight.ranktable.write import text_of
from preflight.report.text import printable
from preflight.transport.engine.open_mpi import addresses_of, mpirun_of
from preflight.transport.engine.slurm import job_of
from preflight.transport.programs import source

MOST_PROBES = 3  # in one run; if the last still finds unhealthy nodes, the cause is elsewhere


def run_command(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    args.program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not args.program or not args.program[0]:
        raise UsageError("say what is to be run: preflight exec -- torchrun train.py")
    if args.tool == "hccl-test":
        raise UsageError("HCCL Test goes by ssh, and exec by srun or mpirun; leave out --with")
    cluster = _cluster(args)
    args.via = _way(args, cluster)
    with session(args, cluster) as by_ssh:
        s = _in_the_job(args, by_ssh)
        wanted = _wanted(args, s)
        start = _start_on_the_good(args, s, wanted)
    if isinstance(start, int):
        return start
    sys.stdout.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # signals that Python ignores; the command would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:  # signals, terminal and exit code are those of srun or mpirun from here on
        os.execve(start.argv[0], start.argv, dict(start.environment))  # noqa: S606
    except OSError as error:
        raise PreflightError(f"{start.argv[0]} could not be started: {error.strerror}") from error


def _cluster(args: argparse.Namespace) -> Cluster:
    if args.inventory is not DEFAULT_INVENTORY or args.inventory.exists():
        return load(args.inventory)

    count = max(args.devices) + 1 if args.devices else None
    cluster, assumed = cluster_of(os.environ, args.product, count, socket.gethostbyname)
    _say("no hosts.toml: the hosts are those of the job")
    for sentence in assumed:
        _say(sentence)
    return cluster


def _way(args: argparse.Namespace, cluster: Cluster) -> str:
    way = args.via or cluster.probe.via
    if way != "ssh":
        return str(way)
    if args.via or "SLURM_JOB_ID" not in os.environ:
        raise UsageError(
            "exec starts its command by srun, in a job of Slurm, or by Open MPI's mpirun (--via mpi), and not over "
            "ssh: salloc first; or preflight probe, and then what preflight launch prints"
        )
    return "slurm"


def _in_the_job(args: argparse.Namespace, s: Session) -> Session:
    """Return the session with those of its hosts that are in the job. Raise UsageError if there are none."""
    if args.via != "slurm":
        return s

    job = job_of(os.environ, len(s.hosts), "exec")
    nodes = names.read(ListSource(f"{slurm_environment.ENVIRONMENT}: SLURM_JOB_NODELIST", job.nodes))
    names_of_hosts = job.names(s.hosts)
    if not names_of_hosts:
        raise UsageError(f"job {job.number} has the nodes {job.nodes}, and none of the hosts of {args.inventory}")
    job_names = job.names(s.cluster.hosts).values()
    if strangers := [node.name for node in nodes.hosts if node.name not in job_names]:
        _say(f"{fold(strangers)} of job {job.number} {_are(strangers)} not in {args.inventory}: left out")
    return s._replace(hosts=tuple(host for host in s.hosts if host.name in names_of_hosts))


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _wanted(args: argparse.Namespace, s: Session) -> Wanted:
    """Return the number of nodes and the policy for unknown ones.

    Raise UsageError for a job that cannot run on any nodes, before any host is contacted.
    """
    job = _job(args, s.cluster, s.hosts, None, "")
    scripts(job)
    options = Told(args.nodes, len(job.places[0].devices), job.port, _ranks_by_table(args, s.cluster), args.per_device)
    nodes = nodes_of(job.program, options)
    if nodes and nodes > len(s.hosts):
        raise UsageError(f"{nodes} nodes are wanted, and there are {len(s.hosts)} to choose from")
    return Wanted(nodes, Unknown(args.unknown))


def _ranks_by_table(args: argparse.Namespace, cluster: Cluster) -> bool:
    return cluster.product.is_npu and cluster.probe.backend == "hccl" and not args.no_rank_table


def _job(
    args: argparse.Namespace, cluster: Cluster, hosts: Sequence[Host], facts: ClusterFacts | None, table: str
) -> Job:
    """Return the job on `hosts`, in the order of its ranks. Raise UsageError.

    Raise NotSeenError if `facts` lack a needed value. They are None if none have been collected.
    """
    launcher = Launcher.SHELL if args.per_device else Launcher.SPAWN
    refuse_port(args.master_port)
    port = args.master_port or master_port(cluster, launcher)
    job_hosts = tuple(places(cluster, hosts, args.devices, facts))
    refuse_job(cluster, port, job_hosts)
    own = checked(args.env, cluster.product, len(hosts))
    return Job(launcher, cluster, job_hosts, tuple(args.program), port, own, rank_table=table)


def _start_on_the_good(args: argparse.Namespace, s: Session, wanted: Wanted) -> Start | int:
    """Return the program that replaces this process, or the exit code if nothing is started."""
    with reached_as_asked(args, s) as reached:
        choice = _proved(args, reached, wanted)
        if choice.problem:
            _say(f"not started: {choice.problem}{_out(choice)}")
            return choice.code
        chosen = [host for host in s.hosts if host.name in choice.take]
        job, table = _settled(args, reached._replace(hosts=tuple(chosen)))
        s.progress.clear()
    input_text = packed(_by_node(args, chosen, scripts(job)), table, source("step", "agent.processes"))
    spare = f"; spare: {fold(choice.spare)}" if choice.spare else ""
    _say(f"{args.program[0]} starts on {len(chosen)} of {len(s.hosts)} nodes, {fold(choice.take)}{spare}{_out(choice)}")
    return _start(args, chosen, job, input_text)


def _out(choice: Choice) -> str:
    return f"; left out: {fold(choice.out)}" if choice.out else ""


def _proved(args: argparse.Namespace, s: Session, wanted: Wanted) -> Choice:
    """Probe until no node fails.

    Each probe leaves out the nodes that failed, since they took part in other nodes' tests.
    """
    out: dict[str, str] = {}
    exclusions: list[str] = []  # from all probes, so that the last report has every decision
    for _ in range(MOST_PROBES):
        started, names = datetime.now(UTC), [host.name for host in s.hosts]
        try:
            result = probed(args, s)
        except NotSeenError as error:
            if wanted.unknown is Unknown.CLOSED:
                raise
            _say(f"{error}; --unknown open: it is run all the same")
            return replace(choose(names, (), {}, wanted), out=out)
        findings = judged(s, result)
        not_tested = {**result.refused, **result.alone}  # the report names these anyway
        choice = choose(names, findings, not_tested, wanted, result.observations)
        exclusions += [f"left out: {host}: {why}" for host, why in choice.out.items() if host not in not_tested]
        with redirect_stdout(sys.stderr):
            finish_probe(args, s, started, result, findings, [*exclusions, *_decided(choice)])
        out |= choice.out
        if choice.problem or not choice.again:
            return replace(choice, out=out)
        _say(f"the others once more, without {fold(choice.out)}")
        s = s._replace(hosts=tuple(host for host in s.hosts if host.name in choice.take))
    return Choice(out=out, problem=f"{MOST_PROBES} probes in a row have found bad nodes among those left", code=1)


def _decided(choice: Choice) -> list[str]:
    """Return the report's note on whether the command is started."""
    if choice.problem:
        return [f"the command is not started: {choice.problem}"]
    return [] if choice.again else [f"the command is started on {fold(choice.take)}"]


def _settled(args: argparse.Namespace, s: Session) -> tuple[Job, Table | None]:
    """Return the job on the session's hosts, and its rank table, from current facts."""
    if _ranks_by_table(args, s.cluster):
        return _by_rank_table(args, s)
    facts = None
    if must_look(s.hosts) or wants_addresses(s.cluster, Launcher.SPAWN):
        facts = collect(
            s.cluster,
            s.hosts,
            s.transport,
            progress=s.progress,
            ports=s.cluster.ports,
            pool=args.pool,
            sections=("network",),
        )
    return _job(args, s.cluster, s.hosts, facts, ""), None


def _by_rank_table(args: argparse.Namespace, s: Session) -> tuple[Job, Table]:
    """Return the job and the rank table of its hosts. Raise PreflightError or NotSeenError if they have none."""
    wanted = BuildOptions(args.devices or ())
    facts = look(s, args.pool, version_of(s.cluster, wanted))
    result = build(s.cluster, s.hosts, facts, wanted)
    hint = "; --no-rank-table starts the command without one"
    if result.table is None:
        why = (*result.lacking, *result.unseen)[0]
        raise (PreflightError if result.lacking else NotSeenError)(f"no rank table: {why}{hint}")
    text = text_of(result.table)
    if wrong := next((problem.text for problem in judge(read(text), s.cluster.product) if not problem.warning), ""):
        raise PreflightError(f"no rank table that HCCL takes: {wrong}{hint}")
    order = [server.id for server in result.table.servers]
    hosts = sorted(s.hosts, key=lambda host: order.index(host.address))
    table = Table(f"/tmp/preflight-rank-table-{secrets.token_hex(4)}.json", text)  # noqa: S108  (written with O_EXCL)
    return _job(args, s.cluster, hosts, facts, table.path), table


def _by_node(args: argparse.Namespace, hosts: Sequence[Host], texts: "dict[str, str]") -> dict[str, str]:
    """Return the scripts by the launcher's names of the hosts."""
    if args.via == "mpi":
        return texts

    return {node: texts[host] for host, node in job_of(os.environ).names(hosts).items()}


def _start(args: argparse.Namespace, hosts: Sequence[Host], job: Job, told: dict[str, str]) -> Start:
    if args.via == "slurm":
        job_allocation = job_of(os.environ)
        return by_srun(job_allocation, list(job_allocation.names(hosts).values()), told, os.environ)

    addresses = dict(zip((host.name for host in hosts), addresses_of(hosts, os.environ), strict=True))
    return by_mpirun(mpirun_of(os.environ), addresses, told, os.environ, path=not job.cluster.probe.setup)


def _say(sentence: str) -> None:
    print(printable(f"preflight: {sentence}"), file=sys.stderr, flush=True)
