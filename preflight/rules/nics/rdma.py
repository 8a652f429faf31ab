"""RDMA ports that count, and those that NCCL takes. Pure.

A port that is down need not be a fault: hosts have ports for storage and management, and ports without a cable."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

from preflight.facts.parsers.rdma import Gid, RdmaPort
from preflight.facts.sections.job import Job
from preflight.facts.sections.rdma import Rdma
from preflight.facts.types import Interface, Network
from preflight.model.cluster import Cluster, Product
from preflight.rules.variables.nccl import by_sockets, hcas

NVIDIA = frozenset({Product.NVIDIA})
Place = tuple[str, int]  # device and port
# Sizes of InfiniBand's packets, and the headers that RoCE adds to each (include/rdma/ib_addr.h, iboe_get_mtu).
_SIZES, _ROCE_HEADERS = (4096, 2048, 1024, 512, 256), 96


@dataclass(frozen=True)
class CountedPorts:
    """The ports that count.

    `certain`: those of them that the inventory names, or that are active on more than half of the hosts. The others are
    active on exactly half."""

    places: frozenset[Place]
    certain: frozenset[Place]

    def of(self, rdma: Rdma) -> list[RdmaPort]:
        return [port for port in rdma.ports if (port.device, port.port) in self.places]

    def active(self, rdma: Rdma) -> list[RdmaPort]:
        return [port for port in self.of(rdma) if port.state == "ACTIVE"]


def counted(cluster: Cluster, rdma: Iterable[Rdma]) -> CountedPorts:
    """Return the ports that the inventory names; else those that are active on half of the hosts or more."""
    hosts = list(rdma)
    if cluster.machine.rdma:
        ports = _of_inventory(frozenset(cluster.machine.rdma), hosts)
        return CountedPorts(ports, ports)
    active = Counter((port.device, port.port) for host in hosts for port in host.ports if port.state == "ACTIVE")
    return CountedPorts(
        frozenset(place for place, number in active.items() if 2 * number >= len(hosts)),
        frozenset(place for place, number in active.items() if 2 * number > len(hosts)),
    )


def _of_inventory(names: frozenset[str], hosts: Iterable[Rdma]) -> frozenset[Place]:
    """Return the ports of these devices; of a device that no host has, its first."""
    present = {(port.device, port.port) for host in hosts for port in host.ports if port.device in names}
    return frozenset(present | {(name, 1) for name in names - {device for device, _ in present}})


def used(cluster: Cluster, job: Job | None, ports: Sequence[RdmaPort]) -> list[RdmaPort] | str:
    """Return those of `ports` that jobs use, by the inventory's devices, or else by NCCL_IB_HCA.

    Return a sentence instead if there is none, or if the ports are unknown (`job` is None)."""
    if cluster.probe.transport == "socket":
        return 'jobs do not use RDMA, because the inventory sets transport = "socket" under [probe]'
    if job and (name := by_sockets(job.variables)):
        return f"{job.told(name)} limits NCCL to sockets"
    names = cluster.machine.rdma
    if not names:
        if job is None:
            return "the RDMA ports of the jobs are unknown. Run preflight where jobs run, or set rdma under [machine]"
        names = hcas(job.variables.get("NCCL_IB_HCA", ""), {port.device for port in ports})
    return [port for port in ports if port.device in names] or "no RDMA port that jobs use is active"


def used_or_all(cluster: Cluster, job: Job | None, ports: Sequence[RdmaPort]) -> list[RdmaPort] | str:
    """Return the same as `used`, but all of `ports` if it is not known which ones jobs use."""
    use_is_known = cluster.machine.rdma or cluster.probe.transport == "socket" or job is not None
    return used(cluster, job, ports) if use_is_known else list(ports) or "no active RDMA port"


def gids_of(rdma: Rdma, port: RdmaPort) -> list[Gid]:
    return [gid for gid in rdma.gids if (gid.device, gid.port) == (port.device, port.port)]


def index(variables: Mapping[str, str]) -> int | None:
    """Return NCCL_IB_GID_INDEX; None where NCCL is to choose."""
    text = variables.get("NCCL_IB_GID_INDEX", "")
    return int(text) if text.isdecimal() and len(text) < 6 else None


def chosen(gids: Sequence[Gid], variables: Mapping[str, str]) -> Gid | None:
    """Return the GID that NCCL takes (src/transport/net_ib.cc, ncclIbGetGidIndex).

    That of NCCL_IB_GID_INDEX comes first. Since 2.21 NCCL else takes one of the configured family (IPv4), if possible
    of the configured version (RoCE v2). Without any of the family it takes that of slot 0, whatever it is."""
    wanted = index(variables)
    if wanted is not None:
        return next((gid for gid in gids if gid.index == wanted), None)
    kind = "v1" if variables.get("NCCL_IB_ROCE_VERSION_NUM") == "1" else "v2"
    family = _of_family(gids, variables.get("NCCL_IB_ADDR_FAMILY", "AF_INET"))
    fitting = [gid for gid in family if gid.kind == kind] or family or gids
    return next(iter(fitting), None)


def _of_family(gids: Iterable[Gid], family: str) -> list[Gid]:
    is_ipv4 = family != "AF_INET6"
    return [gid for gid in gids if (gid.address is not None) is is_ipv4 and not is_link_local(gid)]


def is_link_local(gid: Gid) -> bool:
    return IPv6Address(gid.gid).is_link_local


def interface(network: Network, gid: Gid) -> Interface | None:
    return next((nic for nic in network.interfaces if nic.name == gid.netdev), None)


def roce_mtu(mtu: int) -> int:
    """Return the bytes of data in a RoCE packet, by the MTU of the interface; 0 if not even the smallest fits."""
    return next((size for size in _SIZES if size + _ROCE_HEADERS <= mtu), 0)
