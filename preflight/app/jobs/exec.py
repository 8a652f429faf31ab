"""A job on healthy nodes: probed, chosen and started."""

import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NoReturn

from preflight.app.end import EndedRun
from preflight.app.jobs.exec_job import job_and_table, wanted_nodes
from preflight.app.probing.engine import session_by_engine
from preflight.app.probing.probe import end_probe, judge_probe, run_probe
from preflight.app.run_options import ExecOptions
from preflight.app.session import Session, session
from preflight.gate.exec_allocation import cluster_of
from preflight.gate.exec_choice import Choice, Wanted, choose
from preflight.hostlists import names, slurm_environment
from preflight.hostlists.host_list import ListSource
from preflight.inventory import fold
from preflight.launch.exec_step import Start, by_mpirun, by_srun, packed, scripts
from preflight.launch.job import LaunchedJob
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import NotSeenError, PreflightError, UsageError
from preflight.model.gate import Unknown
from preflight.transport.engine.open_mpi import addresses_of, mpirun_of
from preflight.transport.engine.slurm import job_of
from preflight.transport.programs import source

MOST_PROBES = 3  # in one run; if the last still finds unhealthy nodes, the cause is elsewhere


@dataclass(frozen=True)
class ExecOutput:
    """Output of exec: `say` prints a sentence, `show` the report of a probe."""

    say: Callable[[str], None]
    show: Callable[[EndedRun], object]


def choose_start(options: ExecOptions, cluster: Cluster | None, output: ExecOutput) -> Start | int:
    """Probe the nodes of the job, and return the program that starts it; or the exit code if nothing is started.

    Without a `cluster` of an inventory it is that of the job's nodes.
    """
    cluster = cluster or _cluster_of_job(options, output)
    options = replace(options, via=_way(options, cluster))
    with session(replace(options, via=None), cluster) as by_ssh:
        s = _in_the_job(options, by_ssh, output)
        return _start_on_healthy(options, s, wanted_nodes(options, s), output)


def replace_process(start: Start) -> NoReturn:
    """Start the program in place of this process: signals, terminal and exit code are those of srun or mpirun then."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # signals that Python ignores; the command would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(start.argv[0], start.argv, dict(start.environment))  # noqa: S606
    except OSError as error:
        raise PreflightError(f"cannot start {start.argv[0]}: {error.strerror}") from error


def _cluster_of_job(options: ExecOptions, output: ExecOutput) -> Cluster:
    """Return a cluster of the job's nodes."""
    count = max(options.devices) + 1 if options.devices else None
    cluster, assumed = cluster_of(os.environ, options.product, count, socket.gethostbyname)
    output.say("no hosts.toml: using the nodes of the job")
    for sentence in assumed:
        output.say(sentence)
    return cluster


def _way(options: ExecOptions, cluster: Cluster) -> str:
    """Return the engine that starts the command. Raise UsageError if there is none."""
    way = options.via or cluster.probe.via
    if way != "ssh":
        return str(way)
    if options.via or "SLURM_JOB_ID" not in os.environ:
        raise UsageError(
            "exec needs a Slurm job (run salloc first) or --via mpi. Without them, run preflight probe, then the "
            "output of preflight launch."
        )
    return "slurm"


def _in_the_job(options: ExecOptions, s: Session, output: ExecOutput) -> Session:
    """Return the session with those of its hosts that are in the job. Raise UsageError if there are none."""
    if options.via != "slurm":
        return s
    job = job_of(os.environ, len(s.hosts), "exec")
    nodes = names.read(ListSource(f"{slurm_environment.ENVIRONMENT}: SLURM_JOB_NODELIST", job.nodes))
    names_of_hosts = job.names(s.hosts)
    if not names_of_hosts:
        raise UsageError(f"no host of {options.inventory} is in job {job.number}, which has the nodes {job.nodes}")
    job_names = job.names(s.cluster.hosts).values()
    if strangers := [node.name for node in nodes.hosts if node.name not in job_names]:
        output.say(f"left out: {fold(strangers)} of job {job.number}, not in {options.inventory}")
    return s._replace(hosts=tuple(host for host in s.hosts if host.name in names_of_hosts))


def _start_on_healthy(options: ExecOptions, s: Session, wanted: Wanted, output: ExecOutput) -> Start | int:
    """Return the program that starts the job on healthy nodes, or the exit code if nothing is started."""
    with session_by_engine(options, s) as by_engine:
        choice = _probe_and_choose(options, by_engine, wanted, output)
        if choice.problem:
            output.say(f"not started: {choice.problem}{_left_out(choice)}")
            return choice.code
        chosen = tuple(host for host in s.hosts if host.name in choice.take)
        job, table = job_and_table(options, by_engine._replace(hosts=chosen))
        s.progress.clear()
    input_text = packed(_by_node(options, chosen, scripts(job)), table, source("step", "agent.processes"))
    spare = f"; spare: {fold(choice.spare)}" if choice.spare else ""
    output.say(
        f"starting {options.program[0]} on {len(chosen)} of {len(s.hosts)} nodes: {fold(choice.take)}{spare}"
        f"{_left_out(choice)}"
    )
    return _start(options, chosen, job, input_text)


def _left_out(choice: Choice) -> str:
    return f"; left out: {fold(choice.out)}" if choice.out else ""


def _probe_and_choose(options: ExecOptions, s: Session, wanted: Wanted, output: ExecOutput) -> Choice:
    """Probe until no node fails.

    Each probe leaves out the nodes that failed, since they took part in other nodes' tests.
    """
    out: dict[str, str] = {}
    exclusions: list[str] = []  # from all probes, so that the last report has every decision
    for _ in range(MOST_PROBES):
        names_of_hosts = [host.name for host in s.hosts]
        try:
            run = run_probe(options, s, datetime.now(UTC))
        except NotSeenError as error:
            if wanted.unknown is Unknown.CLOSED:
                raise
            output.say(f"{error}. The command starts nevertheless (--unknown open).")
            return replace(choose(names_of_hosts, (), {}, wanted), out=out)
        judge_probe(run)
        not_tested = {**run.refused, **run.untested}  # the report names these anyway
        choice = choose(names_of_hosts, run.findings, not_tested, wanted, run.observations)
        exclusions += [f"left out: {host}: {why}" for host, why in choice.out.items() if host not in not_tested]
        run.notes += [*exclusions, *_decision(choice)]
        output.show(end_probe(run))
        out |= choice.out
        if choice.problem or not choice.again:
            return replace(choice, out=out)
        output.say(f"probing the other nodes again, without {fold(choice.out)}")
        s = s._replace(hosts=tuple(host for host in s.hosts if host.name in choice.take))
    return Choice(out=out, problem=f"{MOST_PROBES} probes in a row found bad nodes", code=1)


def _decision(choice: Choice) -> list[str]:
    """Return the report's note on whether the command is started."""
    if choice.problem:
        return [f"command not started: {choice.problem}"]
    return [] if choice.again else [f"command started on {fold(choice.take)}"]


def _by_node(options: ExecOptions, hosts: Sequence[Host], texts: dict[str, str]) -> dict[str, str]:
    """Return the scripts by the launcher's names of the hosts."""
    if options.via == "mpi":
        return texts
    return {node: texts[host] for host, node in job_of(os.environ).names(hosts).items()}


def _start(options: ExecOptions, hosts: Sequence[Host], job: LaunchedJob, texts: dict[str, str]) -> Start:
    if options.via == "slurm":
        allocation = job_of(os.environ)
        return by_srun(allocation, list(allocation.names(hosts).values()), texts, os.environ)
    addresses = dict(zip((host.name for host in hosts), addresses_of(hosts, os.environ), strict=True))
    return by_mpirun(mpirun_of(os.environ), addresses, texts, os.environ, path=not job.cluster.probe.setup)
