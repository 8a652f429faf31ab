"""The job of `preflight exec`: its size, its rank table, and what its processes get."""

import secrets

from preflight.app.jobs.job_rules import master_port, refuse_job, refuse_port
from preflight.app.jobs.rank_table_facts import rank_table_facts
from preflight.app.run_options import ExecOptions
from preflight.app.session import Session
from preflight.facts.types import ClusterFacts
from preflight.gate.exec_choice import Wanted
from preflight.launch.environment import checked
from preflight.launch.exec_command import Told, nodes_of
from preflight.launch.exec_step import Table, scripts
from preflight.launch.job import JobLauncher, LaunchedJob
from preflight.launch.places import must_look, places, wants_addresses
from preflight.model.cluster import Cluster
from preflight.model.errors import NotSeenError, PreflightError, UsageError
from preflight.model.gate import Unknown
from preflight.ranktable.build import BuildOptions, build, version_of
from preflight.ranktable.read import read
from preflight.ranktable.rules import judge
from preflight.ranktable.write import text_of


def wanted_nodes(options: ExecOptions, s: Session) -> Wanted:
    """Return the number of nodes and the policy for unknown ones.

    Raise UsageError for a job that cannot run on any nodes, before any host is contacted.
    """
    job = _job(options, s)
    scripts(job)
    settings = Told(
        options.nodes, len(job.places[0].devices), job.port, _ranks_by_table(options, s.cluster), options.per_device
    )
    nodes = nodes_of(job.program, settings)
    if nodes and nodes > len(s.hosts):
        raise UsageError(f"the command needs {nodes} nodes, but there are only {len(s.hosts)}")
    return Wanted(nodes, Unknown(options.unknown))


def _ranks_by_table(options: ExecOptions, cluster: Cluster) -> bool:
    return cluster.product.is_npu and cluster.probe.backend == "hccl" and not options.no_rank_table


def _job(options: ExecOptions, s: Session, facts: ClusterFacts | None = None, table: str = "") -> LaunchedJob:
    """Return the job on the session's hosts, in the order of its ranks. Raise UsageError.

    Raise NotSeenError if `facts` lack a needed value. They are None if none have been collected.
    """
    launcher = JobLauncher.SHELL if options.per_device else JobLauncher.SPAWN
    refuse_port(options.master_port)
    port = options.master_port or master_port(s.cluster, launcher)
    job_hosts = tuple(places(s.cluster, s.hosts, options.devices, facts))
    refuse_job(s.cluster, port, job_hosts)
    own = checked(list(options.env), s.cluster.product, len(s.hosts))
    return LaunchedJob(launcher, s.cluster, job_hosts, tuple(options.program), port, own, rank_table=table)


def job_and_table(options: ExecOptions, s: Session) -> tuple[LaunchedJob, Table | None]:
    """Return the job on the session's hosts, and its rank table, from current facts."""
    if _ranks_by_table(options, s.cluster):
        return _by_rank_table(options, s)
    facts = None
    if must_look(s.hosts) or wants_addresses(s.cluster, JobLauncher.SPAWN):
        facts = s.collect(sections=("network",))
    return _job(options, s, facts), None


def _by_rank_table(options: ExecOptions, s: Session) -> tuple[LaunchedJob, Table]:
    """Return the job and the rank table of its hosts. Raise PreflightError or NotSeenError if they have none."""
    wanted = BuildOptions(options.devices or ())
    facts = rank_table_facts(s, version_of(s.cluster, wanted))
    result = build(s.cluster, s.hosts, facts, wanted)
    hint = ". To start without a rank table, add --no-rank-table."
    if result.table is None:
        why = (*result.lacking, *result.unseen)[0]
        raise (PreflightError if result.lacking else NotSeenError)(f"cannot make a rank table: {why}{hint}")
    text = text_of(result.table)
    if wrong := next((problem.text for problem in judge(read(text), s.cluster.product) if not problem.warning), ""):
        raise PreflightError(f"HCCL would reject the rank table: {wrong}{hint}")
    order = [server.id for server in result.table.servers]
    hosts = tuple(sorted(s.hosts, key=lambda host: order.index(host.address)))
    table = Table(f"/tmp/preflight-rank-table-{secrets.token_hex(4)}.json", text)  # noqa: S108  (written with O_EXCL)
    return _job(options, s._replace(hosts=hosts), facts, table.path), table
