"""A rank table compared with the inventory of its hosts, without any of the hosts. Pure."""

from collections.abc import Iterator

from preflight.model.cluster import Cluster
from preflight.ranktable.job import addresses_of_job, host_ips_of_job
from preflight.ranktable.read import Reading
from preflight.ranktable.rules import judge
from preflight.ranktable.types import RankTable, TableProblem, rank_problem

_PROFILE = "[host_setup] in the inventory"


def judge_planned(reading: Reading, cluster: Cluster) -> tuple[TableProblem, ...]:
    """Return all problems of a table of hosts of this cluster."""
    problems = judge(reading, cluster.product)
    table = reading.table
    if table is None:
        return problems
    beyond = tuple(devices_beyond(table, cluster))
    reported = {problem.path for problem in beyond}
    profile = cluster.setup.profile or {}
    return (
        *(problem for problem in problems if problem.path not in reported or not problem.warning),
        *beyond,
        *addresses_of_job(table, table.servers, profile, _PROFILE),
        *host_ips_of_job(table, table.servers, profile, _PROFILE),
    )


def devices_beyond(table: RankTable, cluster: Cluster) -> Iterator[TableProblem]:
    """Yield devices with a number that the host of their server, or else the largest host, does not have."""
    counts = {name: len(host.devices) for host in cluster.hosts for name in (host.name, host.address)}
    largest = max(counts.values(), default=0)
    for server in table.servers:
        count = next((counts[name] for name in sorted(server.names) if name in counts), largest)
        for device in server.devices:
            if 0 < count <= device.device_id:
                text = f": according to the inventory, such a server has devices 0 to {count - 1}"
                yield rank_problem("device", server, device, "device_id", text)
