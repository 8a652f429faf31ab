"""A host's RDMA NICs, and what lies between them and its GPUs: the section `rdma` of the facts."""

from dataclasses import dataclass, field
from typing import Literal

from preflight.facts.parsers.rdma.gids import Gid
from preflight.facts.parsers.rdma.port import RdmaPort
from preflight.facts.parsers.rdma.sysfs import PortCounters
from preflight.facts.reading import Missing


@dataclass(frozen=True)
class PciFunction:
    """A GPU or an RDMA NIC on the PCI bus."""

    name: str  # mlx5_0; of a GPU its address
    kind: Literal["gpu", "nic"]
    path: tuple[str, ...]  # addresses of the bridges above it, the root port first, and its own: "0000:17:00.0"
    numa_node: int | None = None
    iommu: str = ""  # the type of its IOMMU group: identity (passed through), DMA, DMA-FQ; "": in none, or not known


@dataclass(frozen=True)
class Rdma:
    """`counters`: since the driver was loaded; `later`: the same, `seconds` later. `acs`: a bridge above one of
    `functions` → its ACS control register, 0 where it has none; None: only root is shown it."""

    ports: tuple[RdmaPort, ...]
    gids: tuple[Gid, ...]
    counters: tuple[PortCounters, ...]
    later: tuple[PortCounters, ...] = ()
    seconds: float | None = 0.0  # None: the tests of a probe lie between
    functions: tuple[PciFunction, ...] = ()
    acs: dict[str, int | None] = field(default_factory=dict)
    uverbs: int = 0  # /dev/infiniband/uverbsN of the host
    peermem: bool = False  # nvidia_peermem, or nv_peer_mem before it, is loaded
    open_driver: bool | None = None  # NVIDIA's open kernel module; None: the driver is not loaded, or of no known kind
    iommus: tuple[str, ...] = ()  # that the kernel uses: /sys/class/iommu
    iommu_arguments: tuple[str, ...] = ()  # of the kernel's command line: iommu=pt, intel_iommu=on
    virtual: bool = False  # a virtual machine
    unread: tuple[Missing, ...] = ()  # devices that did not answer, and what of the answers is not understood
    mtu_unread: str = ""  # why ibv_devinfo, which is there, did not tell the MTU of InfiniBand ports
