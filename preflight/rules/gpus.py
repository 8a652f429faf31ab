"""GPUs of a host: presence, numbers and names, and what their model is known to have. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.facts.parsers.nvidia.nvidia_logs.kernel import SXid, Xid
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpu
from preflight.facts.sections.nvidia import Nvidia, PciGpu
from preflight.model.cluster import Host, Product

GPU = frozenset({Product.NVIDIA})
_FOR_THE_HOST = (None, "nvidia", "nouveau")  # drivers of a GPU that is not given to a virtual machine (vfio-pci)
OFF_THE_BUS = 79  # the Xid of a GPU that PCIe lost


@dataclass(frozen=True)
class Profile:
    """What hosts with a model of GPU have. `gpus`: numbers a host that are usual; `nvlinks` a GPU, None: not known;
    `nvlink_speed`: GB/s of one link, each way. All its GPUs reach each other over NVLink."""

    gpus: tuple[int, ...]
    nvlinks: int | None = None
    nvlink_speed: float | None = None


# By the name that the driver gives the GPU. Links and speeds as captures of healthy hosts show them.
_PROFILES = (
    (re.compile(r"NVIDIA A100-SXM4-(40|80)GB"), Profile((4, 8, 16), 12, 25.0)),
    (re.compile(r"NVIDIA H100 80GB HBM3"), Profile((4, 8), 18, 26.562)),
    (re.compile(r"NVIDIA H200"), Profile((4, 8), 18, 26.562)),
    (re.compile(r"NVIDIA B200"), Profile((8,))),
)


def profile(product: str | None) -> Profile | None:
    """None: the model is not known here, and its hosts are compared with each other alone."""
    return next((known for pattern, known in _PROFILES if pattern.fullmatch(product or "")), None)


def gpus(nvidia: Nvidia) -> tuple[Gpu, ...]:
    """Those that answer, in the order of their places on the PCI bus."""
    return nvidia.gpus.value.gpus if nvidia.gpus.value else ()


def numbered(nvidia: Nvidia) -> Iterator[tuple[int, Gpu]]:
    """With the numbers by which nvidia-smi calls them: those that it tells, else the places on the PCI bus among all
    GPUs. One that is lost keeps its number, though `nvidia-smi -q` leaves it out."""
    told = {links.uuid: links.index for links in nvidia.nvlinks.value.gpus} if nvidia.nvlinks.value else {}
    found = gpus(nvidia)
    places = {gpu.bus: told[gpu.uuid] for gpu in found if gpu.uuid in told}
    if len(set(places.values())) < len(found):
        given = set() if nvidia.contained else {gpu.bus for gpu in _own(nvidia)}
        buses = sorted(given | {gpu.bus for gpu in found}, key=lambda bus: (len(bus), bus))
        places = {bus: place for place, bus in enumerate(buses)}
    return ((places[gpu.bus], gpu) for gpu in found)


def called(host: Host, index: int, gpu: Gpu) -> str:
    return f"{host.name}: GPU {index} ({gpu.bus})"


def _own(nvidia: Nvidia) -> Iterator[PciGpu]:
    """GPUs on the bus that the host itself is to use."""
    return (gpu for gpu in nvidia.pci if gpu.driver in _FOR_THE_HOST and not gpu.virtual)


def gone(nvidia: Nvidia) -> dict[str, str]:
    """GPUs that are lost: bus id → how it shows. A container need not have all GPUs of its host, nor an answer that
    breaks off."""
    told = nvidia.gpus.value
    shown = {gpu.bus for gpu in told.gpus} if told and not told.cut else set()
    return {
        gpu.bus: "is on the PCI bus, but not in nvidia-smi"
        if gpu.answers
        else "does not answer on the PCI bus any more"
        for gpu in _own(nvidia)
        if not gpu.answers or (shown and gpu.bus not in shown and not nvidia.contained)
    }


def xids_of(nvidia: Nvidia) -> tuple[Xid, ...]:
    """None, too, where the kernel log is not known: GPU107 says so."""
    return nvidia.log.value.lines.xids if nvidia.log.value else ()


def line(error: Xid | SXid) -> str:
    """What the driver said, with the time of its last line; /dev/kmsg counts microseconds since the boot."""
    when = f"{int(error.last) / 1e6:.0f} s after the boot:" if error.last.isdecimal() else error.last
    return f"{when} {error.text}".strip()
