"""Typed facts from the collector's section `rdma`. Pure."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from preflight.facts.output import ToolOutput
from preflight.facts.parsers.rdma.port import RdmaPort, RdmaPorts
from preflight.facts.parsers.rdma.sysfs import SysfsPorts, infiniband
from preflight.facts.parsers.rdma.verbs import ibv_devinfo
from preflight.facts.sections.rdma import PciFunction, Rdma
from preflight.facts.types import Missing

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_NAME = re.compile(r"[\w.:-]{1,60}", re.ASCII)
# Makers of virtual machines, as DMI names them. A cloud's bare metal has that in its product name.
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
    """The section `rdma`. `silent`: devices that did not answer in time. `left_out`: how many devices were skipped."""

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
    devinfo: ToolOutput | None = None  # of ibv_devinfo; None: no InfiniBand port, or no such tool


def rdma(raw: RawRdma) -> Rdma | Missing:
    """Return the section. A host without RDMA NICs has no ports; one with unreadable ports is `Missing`."""
    sysfs = infiniband(raw.infiniband) if raw.infiniband.strip() else SysfsPorts((), (), ())
    if isinstance(sysfs, Missing):
        return sysfs
    later = infiniband(raw.later) if raw.later.strip() else SysfsPorts((), (), ())
    if not _has_pci_addresses(raw):
        return Missing("the PCI addresses or the names of GPUs and RDMA NICs are not valid")
    unread = [Missing(f"{name} did not answer in time (its firmware may hang)") for name in raw.silent]
    if raw.left_out:
        unread.append(Missing(f"{raw.left_out} more RDMA devices were not checked"))
    devinfo = _devinfo(raw.devinfo)
    return Rdma(
        ports=_with_mtu(sysfs.ports, devinfo),
        gids=sysfs.gids,
        counters=sysfs.counters,
        later=() if isinstance(later, Missing) else later.counters,
        seconds=raw.seconds,
        functions=tuple(map(_pci_function, raw.functions)),
        acs=raw.acs,
        uverbs=raw.uverbs,
        peermem=raw.peermem,
        open_driver=_is_open(raw.driver),
        iommus=tuple(raw.iommus),
        iommu_arguments=tuple(raw.iommu_arguments),
        virtual=raw.hypervisor or _names_hypervisor(raw.dmi),
        unread=(*unread, *sysfs.unread),
        mtu_unread=devinfo.error if isinstance(devinfo, Missing) else "",
    )


def _has_pci_addresses(raw: RawRdma) -> bool:
    paths = [address for function in raw.functions for address in function.path]
    names = [function.name for function in raw.functions]
    return all(map(_ADDRESS.fullmatch, [*paths, *raw.acs])) and all(map(_NAME.fullmatch, names))


def _devinfo(output: ToolOutput | None) -> RdmaPorts | Missing | None:
    """Return the ports of ibv_devinfo; None if it was not called."""
    if output is None:
        return None
    if output.trouble:
        return Missing(output.trouble)
    return ibv_devinfo(output.text)


def _with_mtu(ports: tuple[RdmaPort, ...], devinfo: RdmaPorts | Missing | None) -> tuple[RdmaPort, ...]:
    """Return the ports with the MTU of InfiniBand, which sysfs lacks. Without ibv_devinfo it stays unknown."""
    mtus = {(port.device, port.port): port.mtu for port in devinfo.ports} if isinstance(devinfo, RdmaPorts) else {}
    return tuple(
        replace(port, mtu=mtus.get((port.device, port.port))) if port.link_layer == "InfiniBand" else port
        for port in ports
    )


def _names_hypervisor(dmi: list[str]) -> bool:
    return any(word in text for text in dmi for word in _HYPERVISORS)


def _pci_function(raw: RawFunction) -> PciFunction:
    return PciFunction(raw.name, raw.kind, tuple(raw.path), _node(raw.numa_node), raw.iommu[:20])


def _node(text: str) -> int | None:
    """Return the NUMA node. The kernel has -1 for an unknown one."""
    return int(text) if text.isdecimal() and len(text) < 5 else None


def _is_open(version: str) -> bool | None:
    """Parse /proc/driver/nvidia/version: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15 …`"""
    first, _, _ = version.partition("\n")
    if not first.startswith("NVRM version:"):
        return None
    return "Open Kernel Module" in first
