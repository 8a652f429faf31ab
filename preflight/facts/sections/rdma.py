"""A host's RDMA NICs, and their paths to its GPUs: the section `rdma` of the facts."""

from dataclasses import dataclass, field
from typing import Literal

from preflight.facts.parsers.rdma.gids import Gid
from preflight.facts.parsers.rdma.port import RdmaPort
from preflight.facts.parsers.rdma.sysfs import PortCounters
from preflight.facts.reading import Missing


@dataclass(frozen=True)
class PciFunction:
    """A GPU or an RDMA NIC on the PCI bus."""

    name: str  # mlx5_0; the address of a GPU
    kind: Literal["gpu", "nic"]
    path: tuple[str, ...]  # addresses of the bridges above it, the root port first, and its own: "0000:17:00.0"
    numa_node: int | None = None
    iommu: str = ""  # the type of its IOMMU group, identity (passed through), DMA or DMA-FQ; "": in none, or not known


@dataclass(frozen=True)
class Rdma:
    """The RDMA NICs of a host.

    `counters`: values since the driver was loaded. `later`: the same, `seconds` later. `acs`: a bridge above one of
    `functions` → its ACS control register, 0 if it has none. None: only root can read it.
    """

    ports: tuple[RdmaPort, ...]
    gids: tuple[Gid, ...]
    counters: tuple[PortCounters, ...]
    later: tuple[PortCounters, ...] = ()
    seconds: float | None = 0.0  # None: the tests of a probe ran in between
    functions: tuple[PciFunction, ...] = ()
    acs: dict[str, int | None] = field(default_factory=dict)
    uverbs: int = 0  # /dev/infiniband/uverbsN of the host
    peermem: bool = False  # nvidia_peermem, or nv_peer_mem before it, is loaded
    open_driver: bool | None = (
        None  # NVIDIA's open kernel module; None: the driver is not loaded, or its kind is unknown
    )
    iommus: tuple[str, ...] = ()  # those that the kernel uses, as in /sys/class/iommu
    iommu_arguments: tuple[str, ...] = ()  # from the kernel's command line, such as iommu=pt, intel_iommu=on
    virtual: bool = False  # a virtual machine
    unread: tuple[Missing, ...] = ()  # devices that did not answer, and parts of answers that are not understood
    mtu_unread: str = ""  # why ibv_devinfo, though installed, did not report the MTU of InfiniBand ports
