"""Facts about NVIDIA GPUs: nvidia-smi, the PCI bus, the driver, fabric manager, the kernel log."""

from dataclasses import dataclass, field
from typing import Literal

from preflight.facts.parsers.nvidia.nvidia_logs.kernel import KernelLog
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpus
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink import NvLinks
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink_errors import NvLinkErrors
from preflight.facts.parsers.nvidia.nvidia_smi.topology import GpuTopology
from preflight.facts.reading import NOT_SET, Found

Since = Literal["boot", "driver", "unknown"]


@dataclass(frozen=True)
class PciGpu:
    """A GPU as the kernel has it, without any tool. `width`: PCIe lanes in use. `width_max`: those the GPU has.

    None: not known. `answers` False: its configuration space reads as all ones, so it fell off the bus. `driver`: the
    kernel driver that uses it. None: no driver, or not known. `virtual`: a virtual function (SR-IOV), a part of another
    GPU for a guest.
    """

    bus: str  # "0000:9b:00.0"
    width: int | None = None
    width_max: int | None = None
    answers: bool = True
    driver: str | None = None
    virtual: bool = False


@dataclass(frozen=True)
class KernelModule:
    """The driver in the kernel. `is_open`: built from NVIDIA's open sources."""

    version: str  # "535.183.01"
    is_open: bool


@dataclass(frozen=True)
class FabricManager:
    """The service that sets up NVSwitches. `at_boot` None: the host has no systemd.

    `version`: that of its Debian package. None: not known. `unit` False: systemd has no unit of it that could be
    enabled.
    """

    running: bool
    at_boot: bool | None
    version: str | None
    unit: bool = True


@dataclass(frozen=True)
class DriverLog:
    """The driver's lines of the kernel log.

    `since`: they begin at the boot or at the driver's last start, whichever is later. "unknown": older lines are lost.
    """

    lines: KernelLog
    since: Since


@dataclass(frozen=True)
class Nvidia:
    """The NVIDIA GPUs of a host, and their software.

    `hung`: nvidia-smi did not end within its time, so its answer is an error, too. `switches`: bus ids of the
    NVSwitches on the PCI bus, which does not show those of B200 hosts. `module` None: no driver is loaded. `libraries`:
    versions of libnvidia-ml and libcuda in the usual folders. `contained`: the collector ran in a container, which need
    not have all GPUs of its machine. Jobs may run elsewhere (Job.contained). `nvlink_errors` are not collected if the
    kernel log has to be read from journald.
    """

    gpus: Found[Gpus] = NOT_SET
    nvlinks: Found[NvLinks] = NOT_SET
    topology: Found[GpuTopology] = NOT_SET
    hung: bool = False
    pci: tuple[PciGpu, ...] = ()
    switches: tuple[str, ...] = ()
    module: KernelModule | None = None
    libraries: tuple[str, ...] = ()
    fabric_manager: FabricManager = field(default_factory=lambda: FabricManager(False, None, None))
    persistence_daemon: bool = False
    log: Found[DriverLog] = NOT_SET
    contained: bool = False
    nvlink_errors: Found[NvLinkErrors] = NOT_SET
