"""Device nodes below /dev and accelerators on the PCI bus: what the kernel has, whatever npu-smi says."""

from dataclasses import dataclass, field

from preflight.facts.found import Found


@dataclass(frozen=True)
class DeviceNode:
    """A character device: /dev/davinci0 …, /dev/davinci_manager, /dev/hisi_hdc, /dev/devmm_svm."""

    path: str
    mode: int  # permission bits, 0o660
    user: str
    group: str
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True)
class Accelerator:
    """A Huawei processing accelerator as lspci lists it. `device`: its PCI device id: d801 A1, d802 A2, d803 A3."""

    bus: str  # "0000:3d:00.0", with its domain
    device: str


@dataclass(frozen=True)
class DeviceNodes:
    nodes: tuple[DeviceNode, ...]
    accelerators: Found[tuple[Accelerator, ...]] = field(default_factory=Found)
