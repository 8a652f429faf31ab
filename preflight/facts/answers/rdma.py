"""From the collector's section `rdma` to facts. Pure."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from preflight.facts.output import Output
from preflight.facts.parsers.rdma.port import RdmaPort, RdmaPorts
from preflight.facts.parsers.rdma.sysfs import SysfsPorts, infiniband
from preflight.facts.parsers.rdma.verbs import ibv_devinfo
from preflight.facts.sections.rdma import PciFunction, Rdma
from preflight.facts.types import Missing

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_NAME = re.compile(r"[\w.:-]{1,60}", re.ASCII)
# Makers of machines that are none, as DMI names them; a cloud's bare metal says so in the product's name.
_HYPERVISORS = ("QEMU", "KVM", "VMware", "Xen", "Bochs", "innotek", "Parallels", "OpenStack", "Virtual Machine")


@dataclass
class RawFunction:
    name: str
    kind: Literal["gpu", "nic"]
    path: list[str]
    numa_node: str
    iommu: str


@dataclass
class RawRdma:
    """`silent`: devices that did not answer in time; `left_out`: those that are too many."""

    infiniband: str
    later: str
    seconds: float
    silent: list[str]
    left_out: int
    functions: list[RawFunction]
    acs: dict[str, int | None]
    uverbs: int
    peermem: bool
    driver: str
    iommus: list[str]
    iommu_arguments: list[str]
    hypervisor: bool
    dmi: list[str] = field(default_factory=list)
    devinfo: Output | None = None  # of ibv_devinfo; None: no port is of InfiniBand, or there is no such tool


def rdma(raw: RawRdma) -> Rdma | Missing:
    """A host without RDMA NICs has no ports; one whose ports cannot be read is `Missing`."""
    sysfs = infiniband(raw.infiniband) if raw.infiniband.strip() else SysfsPorts((), (), ())
    if isinstance(sysfs, Missing):
        return sysfs
    later = infiniband(raw.later) if raw.later.strip() else SysfsPorts((), (), ())
    paths = [address for function in raw.functions for address in function.path]
    names = [function.name for function in raw.functions]
    if not (all(map(_ADDRESS.fullmatch, [*paths, *raw.acs])) and all(map(_NAME.fullmatch, names))):
        return Missing("the PCI addresses or names of GPUs and RDMA NICs are none")
    unread = [Missing(f"{name} did not answer in time, as with firmware that hangs") for name in raw.silent]
    if raw.left_out:
        unread.append(Missing(f"{raw.left_out} more RDMA devices were not looked at"))
    devinfo = _devinfo(raw.devinfo)
    return Rdma(
        ports=_with_mtu(sysfs.ports, devinfo),
        gids=sysfs.gids,
        counters=sysfs.counters,
        later=() if isinstance(later, Missing) else later.counters,
        seconds=raw.seconds,
        functions=tuple(
            PciFunction(one.name, one.kind, tuple(one.path), _node(one.numa_node), one.iommu[:20])
            for one in raw.functions
        ),
        acs=raw.acs,
        uverbs=raw.uverbs,
        peermem=raw.peermem,
        open_driver=_is_open(raw.driver),
        iommus=tuple(raw.iommus),
        iommu_arguments=tuple(raw.iommu_arguments),
        virtual=raw.hypervisor or any(word in text for text in raw.dmi for word in _HYPERVISORS),
        unread=(*unread, *sysfs.unread),
        mtu_unread=devinfo.error if isinstance(devinfo, Missing) else "",
    )


def _devinfo(said: Output | None) -> RdmaPorts | Missing | None:
    """What ibv_devinfo tells of ports; None where it was not asked."""
    if said is None:
        return None
    if said.trouble:
        return Missing(said.trouble)
    return ibv_devinfo(said.text)


def _with_mtu(ports: tuple[RdmaPort, ...], told: RdmaPorts | Missing | None) -> tuple[RdmaPort, ...]:
    """What sysfs does not tell of InfiniBand. Where ibv_devinfo is no help the MTU stays unknown."""
    mtus = {(port.device, port.port): port.mtu for port in told.ports} if isinstance(told, RdmaPorts) else {}
    return tuple(
        replace(port, mtu=mtus.get((port.device, port.port))) if port.link_layer == "InfiniBand" else port
        for port in ports
    )


def _node(text: str) -> int | None:
    """The kernel says -1 where it does not know."""
    return int(text) if text.isdecimal() and len(text) < 5 else None


def _is_open(version: str) -> bool | None:
    """/proc/driver/nvidia/version: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15 …`"""
    first, _, _ = version.partition("\n")
    if not first.startswith("NVRM version:"):
        return None
    return "Open Kernel Module" in first
