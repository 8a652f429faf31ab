"""The order of a job's hosts where a rank table says who has which rank. Pure."""

from collections.abc import Sequence

from preflight.facts.types import ClusterFacts
from preflight.launch.job import Place
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError
from preflight.ranktable.live import network_of, own_server
from preflight.ranktable.planned import judge_planned
from preflight.ranktable.read import read
from preflight.ranktable.types import Path, RankTable


def sound(text: str, name: str, cluster: Cluster) -> RankTable:
    """The table of a text. Raises UsageError where it is none, or breaks a rule; `name`: the file's."""
    reading = read(text)
    wrong = next((problem.text for problem in judge_planned(reading, cluster) if not problem.warning), None)
    if wrong or reading.table is None:
        raise UsageError(f"{name}: {wrong}; preflight ranktable --check {name} says where")
    return reading.table


def as_in(table: RankTable, hosts: Sequence[Host], places: Sequence[Place], facts: ClusterFacts | None) -> list[Place]:
    """The places of these hosts in the order of the table's ranks. Raises UsageError where the table has other hosts or
    devices than the job: launchers count ranks host by host, and on each by its devices."""
    found: dict[Path, tuple[int, Place]] = {}  # by the server
    for host, place in zip(hosts, places, strict=True):
        server = own_server(table, host, network_of(facts.hosts.get(host.name)) if facts else None)
        if server is None or server.path in found:
            raise UsageError(f"{host.name} ({host.address}) is not in the rank table; --limit says who is in the job")
        ranked = sorted(server.devices, key=lambda device: device.rank)
        if tuple(device.device_id for device in ranked) != place.devices:
            listed, taken = ", ".join(str(it.device_id) for it in ranked), ", ".join(map(str, place.devices))
            raise UsageError(f"{host.name}: ranks go to the devices {listed} in the rank table, to {taken} in the job")
        found[server.path] = ranked[0].rank, place
    if other := next((server.id for server in table.servers if server.path not in found), ""):
        raise UsageError(f"server {other} of the rank table is no host of the job")
    return [place for _, place in sorted(found.values(), key=lambda it: it[0])]
