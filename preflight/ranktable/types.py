"""Types of a rank table and its problems. Sources: HCCL's user guide, cluster_info_config; MindCluster.

The version names the format. "0" is the old group_list, which has no version. "1.0" lists servers. "1.2" adds the
super-pods of Atlas A3. "2.0" lists ranks without their servers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

OLD = "0"  # the group_list
VERSIONS = ("1.0", "1.2", "2.0")

Path = tuple[str | int, ...]  # of a value in the JSON: ("server_list", 1, "device", 3, "rank_id")


@dataclass(frozen=True)
class TableProblem:
    """A broken rule of docs/rank-tables.md: `text` is a sentence with rank, server, device and values.

    `path`, or `offset` in characters, is the place in the text. `warning`: the table works, but is likely a mistake.
    """

    rule: str
    text: str
    path: Path | None = None
    offset: int | None = None
    rank: int | None = None
    warning: bool = False


@dataclass(frozen=True)
class HostDifference(TableProblem):
    """A difference between the table and a live host, with both values, which are empty if there is none."""

    host: str = ""  # its name in the inventory
    server: str = ""
    device: int | None = None
    listed: str = ""
    live: str = ""


@dataclass(frozen=True)
class RankedDevice:
    """A rank and its device. Texts are as in the table, empty if it has none."""

    rank: int
    device_id: int
    path: Path
    device_ip: str = ""
    super_device_id: str = ""
    device_port: str = ""
    host_port: str = ""
    backup_device_ip: str = ""
    backup_device_port: str = ""


@dataclass(frozen=True)
class Server:
    """An entry of server_list, or a pod of a group_list. HCCL does not read `hardware_type`, MindCluster's product."""

    id: str
    devices: tuple[RankedDevice, ...]
    path: Path
    host_ip: str = ""
    container_ip: str = ""
    hardware_type: str = ""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(filter(None, (self.id, self.host_ip, self.container_ip)))


@dataclass(frozen=True)
class SuperPodEntry:
    """An entry of super_pod_list."""

    id: str
    servers: tuple[str, ...]  # their server_id
    path: Path


@dataclass(frozen=True)
class RankAddress:
    """An address of a rank in version 2.0."""

    type: str  # EID, IPV4, IPV6
    value: str
    path: Path


@dataclass(frozen=True)
class RankEntry:
    """A rank of version 2.0, which belongs to no server."""

    rank: int
    device_id: int
    addresses: tuple[RankAddress, ...]
    path: Path


@dataclass(frozen=True)
class Count:
    """A number that the table gives (None if it is left out), and the number of things that it counts."""

    what: str  # "server_count"
    given: int | None
    counted: int
    path: Path


@dataclass(frozen=True)
class RankTable:
    """A rank table: `servers` of versions 0 to 1.2, `ranks` of 2.0."""

    version: str
    servers: tuple[Server, ...] = ()
    super_pods: tuple[SuperPodEntry, ...] = ()
    ranks: tuple[RankEntry, ...] = ()
    counts: tuple[Count, ...] = ()

    @property
    def ranked_devices(self) -> Iterator[tuple[Server, RankedDevice]]:
        """Every rank of `servers` with its server, in the table's order."""
        return ((server, device) for server in self.servers for device in server.devices)

    @cached_property
    def by_name(self) -> Mapping[str, Server]:
        """Servers by each of their names. The first one with a name has it."""
        return {name: server for server in reversed(self.servers) for name in server.names}

    @property
    def size(self) -> int:
        return len(self.ranks) + sum(len(server.devices) for server in self.servers)


def number_ranks(
    version: str, servers: Sequence[Server], super_pods: Sequence[tuple[str, tuple[str, ...]]] = ()
) -> RankTable:
    """Return a table of version 1.0 or 1.2 with ranks in the order given, and the path of every entry."""
    numbered: list[Server] = []
    rank = 0
    for server_number, server in enumerate(servers):
        path = ("server_list", server_number)
        devices = []
        for number, device in enumerate(server.devices):
            devices.append(replace(device, rank=rank, path=(*path, "device", number)))
            rank += 1
        numbered.append(replace(server, path=path, devices=tuple(devices)))
    pods = tuple(SuperPodEntry(*pod, ("super_pod_list", number)) for number, pod in enumerate(super_pods))
    count = Count("server_count", len(numbered), len(numbered), ("server_count",))
    return RankTable(version, tuple(numbered), pods, counts=(count,))


def rank_problem(rule: str, server: Server, device: RankedDevice, key: str, remark: str) -> TableProblem:
    """Return a problem of a rank, with `remark` after its name, at a key of its entry or at the entry itself."""
    path = (*device.path, key) if key else device.path
    return TableProblem(rule, format_rank(server, device) + remark, path, rank=device.rank)


def format_rank(server: Server, device: RankedDevice) -> str:
    return f"rank {device.rank} (server {server.id}, device {device.device_id})"


def format_path(path: Path) -> str:
    """Format a path: ("server_list", 1, "rank_id") → "server_list[1].rank_id"."""
    words = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(words).removeprefix(".") or "the table"
