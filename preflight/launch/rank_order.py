"""The order of a job's hosts by a rank table. Pure."""

from collections.abc import Sequence

from preflight.facts.types import ClusterFacts
from preflight.launch.job import JobHost
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError
from preflight.ranktable.live import network_of, own_server
from preflight.ranktable.planned import judge_planned
from preflight.ranktable.read import read
from preflight.ranktable.types import Path, RankTable, Server


def sound(text: str, name: str, cluster: Cluster) -> RankTable:
    """Return the table of a file's text. Raises UsageError for any other text, and for a broken rule."""
    reading = read(text)
    error = next((problem.text for problem in judge_planned(reading, cluster) if not problem.warning), None)
    if error or reading.table is None:
        raise UsageError(f"{name}: {error}. preflight ranktable --check {name} shows where")
    return reading.table


def as_in(
    table: RankTable, hosts: Sequence[Host], places: Sequence[JobHost], facts: ClusterFacts | None
) -> list[JobHost]:
    """Return the job's hosts in the order of the table's ranks.

    Launchers count ranks host by host, and on each host by its devices. Raises UsageError for a table with other hosts
    or devices than the job.
    """
    by_server: dict[Path, tuple[int, JobHost]] = {}
    for host, place in zip(hosts, places, strict=True):
        server = own_server(table, host, network_of(facts.hosts.get(host.name)) if facts else None)
        if server is None or server.path in by_server:
            raise UsageError(
                f"{host.name} ({host.address}) is not in the rank table. Select the job's hosts with --limit"
            )
        by_server[server.path] = _first_rank(server, place), place
    unused = next((server.id for server in table.servers if server.path not in by_server), "")
    if unused:
        raise UsageError(f"server {unused} of the rank table is not a host of the job")
    return [place for _, place in sorted(by_server.values(), key=lambda entry: entry[0])]


def _first_rank(server: Server, place: JobHost) -> int:
    """Return a server's first rank. Raises UsageError where its devices differ from the job's."""
    ranked = sorted(server.devices, key=lambda device: device.rank)
    if tuple(device.device_id for device in ranked) != place.devices:
        listed = ", ".join(str(device.device_id) for device in ranked)
        planned = ", ".join(map(str, place.devices))
        raise UsageError(
            f"{place.name}: the rank table assigns ranks to devices {listed}, but the job uses devices {planned}"
        )
    return ranked[0].rank
