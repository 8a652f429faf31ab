"""A rank table in types, and what can be wrong with one. Sources: HCCL's user guide, cluster_info_config; MindCluster.

The formats are told by their version: "0" is the old group_list, which has none; "1.0" lists servers; "1.2" has
super-pods of Atlas A3 besides; "2.0" lists ranks, of which nothing says where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

OLD = "0"  # the group_list
VERSIONS = ("1.0", "1.2", "2.0")

Path = tuple[str | int, ...]  # where a value stands: ("server_list", 1, "device", 3, "rank_id")


@dataclass(frozen=True)
class Problem:
    """What is wrong: `rule` is the name of what is broken (docs/rank-tables.md), `text` a sentence with rank, server,
    device and values. `path` or `offset` (characters from the beginning) say where it stands in the text. `warning`:
    works, and is likely not what was meant."""

    rule: str
    text: str
    path: Path | None = None
    offset: int | None = None
    rank: int | None = None
    warning: bool = False


@dataclass(frozen=True)
class Difference(Problem):
    """Between the table and a live host: both values, empty where there is none."""

    host: str = ""  # its name in the inventory
    server: str = ""
    device: int | None = None
    listed: str = ""
    live: str = ""


@dataclass(frozen=True)
class RankedDevice:
    """A rank and its device. Texts are as in the table, empty where it has none."""

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
    """`names`: whatever it is known by: server_id, host_ip, container_ip. A server of a group_list is a pod's.
    `hardware_type`: MindCluster's word for its product, which HCCL does not read."""

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
class SuperPod:
    id: str
    servers: tuple[str, ...]  # their server_id
    path: Path


@dataclass(frozen=True)
class Address:
    """An address of a rank in version 2.0."""

    type: str  # EID, IPV4, IPV6
    value: str
    path: Path


@dataclass(frozen=True)
class Rank:
    """A rank of version 2.0, which belongs to no server."""

    rank: int
    device_id: int
    addresses: tuple[Address, ...]
    path: Path


@dataclass(frozen=True)
class Count:
    """A number that the table gives, and how many of what it counts there are. `given` is None where it is left out."""

    what: str  # "server_count"
    given: int | None
    counted: int
    path: Path


@dataclass(frozen=True)
class RankTable:
    """`servers` of versions 0 to 1.2, `ranks` of 2.0."""

    version: str
    servers: tuple[Server, ...] = ()
    super_pods: tuple[SuperPod, ...] = ()
    ranks: tuple[Rank, ...] = ()
    counts: tuple[Count, ...] = ()

    @property
    def placed(self) -> Iterator[tuple[Server, RankedDevice]]:
        """Every rank of `servers`, as the table lists them."""
        return ((server, device) for server in self.servers for device in server.devices)

    @cached_property
    def by_name(self) -> Mapping[str, Server]:
        """Each server by whatever it is known by."""
        named: dict[str, Server] = {}
        for server in self.servers:
            for name in server.names:
                named.setdefault(name, server)
        return named

    @property
    def size(self) -> int:
        return len(self.ranks) + sum(len(server.devices) for server in self.servers)


def numbered(
    version: str, servers: Sequence[Server], super_pods: Sequence[tuple[str, tuple[str, ...]]] = ()
) -> RankTable:
    """A table of version 1.0 or 1.2 with ranks in the order given, and everything in its place."""
    placed: list[Server] = []
    rank = 0
    for number, server in enumerate(servers):
        path = ("server_list", number)
        devices = []
        for place, device in enumerate(server.devices):
            devices.append(replace(device, rank=rank, path=(*path, "device", place)))
            rank += 1
        placed.append(replace(server, path=path, devices=tuple(devices)))
    pods = tuple(SuperPod(id_, names, ("super_pod_list", number)) for number, (id_, names) in enumerate(super_pods))
    count = Count("server_count", len(placed), len(placed), ("server_count",))
    return RankTable(version, tuple(placed), pods, counts=(count,))


def called(server: Server, device: RankedDevice) -> str:
    """A rank as sentences name it."""
    return f"rank {device.rank} (server {server.id}, device {device.device_id})"


def spelled(path: Path) -> str:
    """("server_list", 1, "rank_id") → "server_list[1].rank_id"."""
    words = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(words).removeprefix(".") or "the table"
