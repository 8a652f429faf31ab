"""A rank table beside the inventory of its hosts, before anybody is asked. Pure."""

from collections.abc import Iterator

from preflight.model.cluster import Cluster
from preflight.ranktable.job import addresses_of_job, host_ips_of_job
from preflight.ranktable.read import Reading
from preflight.ranktable.rules import judge
from preflight.ranktable.types import Problem, RankTable, called

_PROFILE = "[host_setup] of the inventory"


def judge_planned(reading: Reading, cluster: Cluster) -> tuple[Problem, ...]:
    """Everything that is wrong with a table of hosts of this cluster."""
    found = judge(reading, cluster.product)
    if reading.table is None:
        return found
    beyond = tuple(devices_beyond(reading.table, cluster))
    named = {problem.path for problem in beyond}
    profile = cluster.setup.profile or {}
    return (
        *(problem for problem in found if problem.path not in named or not problem.warning),
        *beyond,
        *addresses_of_job(reading.table, reading.table.servers, profile, _PROFILE),
        *host_ips_of_job(reading.table, reading.table.servers, profile, _PROFILE),
    )


def devices_beyond(table: RankTable, cluster: Cluster) -> Iterator[Problem]:
    """device_id counts from 0 to the number of devices of its server, less one: that of the host which the server is
    by name or address, else of the largest host."""
    counts = {name: len(host.devices) for host in cluster.hosts for name in (host.name, host.address)}
    largest = max(counts.values(), default=0)
    for server in table.servers:
        count = next((counts[name] for name in sorted(server.names) if name in counts), largest)
        for device in server.devices:
            if 0 < count <= device.device_id:
                text = f"{called(server, device)}: by the inventory such a server has the devices 0 to {count - 1}"
                yield Problem("device", text, (*device.path, "device_id"), rank=device.rank)
