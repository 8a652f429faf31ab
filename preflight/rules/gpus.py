"""GPUs of a host: presence, numbers and names, and the known properties of their model. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.facts.parsers.nvidia.nvidia_logs.kernel import SXid, Xid
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpu
from preflight.facts.sections.nvidia import Nvidia, PciGpu
from preflight.model.cluster import Host, Product

GPU = frozenset({Product.NVIDIA})
_FOR_THE_HOST = (None, "nvidia", "nouveau")  # drivers of a GPU that is not passed to a virtual machine (vfio-pci)
OFF_THE_BUS = 79  # the Xid of a GPU that PCIe lost


@dataclass(frozen=True)
class Profile:
    """The usual GPUs and NVLinks of hosts with a model of GPU; all GPUs of such a host reach each other over NVLink.

    `gpus`: usual numbers a host. `nvlinks`: links a GPU, None if not known. `nvlink_speed`: GB/s of one link, each
    way."""

    gpus: tuple[int, ...]
    nvlinks: int | None = None
    nvlink_speed: float | None = None


# Keyed by the driver's name of the GPU. Links and speeds are those of captures of healthy hosts.
_PROFILES = (
    (re.compile(r"NVIDIA A100-SXM4-(40|80)GB"), Profile((4, 8, 16), 12, 25.0)),
    (re.compile(r"NVIDIA H100 80GB HBM3"), Profile((4, 8), 18, 26.562)),
    (re.compile(r"NVIDIA H200"), Profile((4, 8), 18, 26.562)),
    (re.compile(r"NVIDIA B200"), Profile((8,))),
)


def profile(product: str | None) -> Profile | None:
    """Return the profile of a GPU model; None if it is not known, and its hosts are only compared with each other."""
    return next((candidate for pattern, candidate in _PROFILES if pattern.fullmatch(product or "")), None)


def gpus(nvidia: Nvidia) -> tuple[Gpu, ...]:
    """Return the GPUs that answer, in the order of their places on the PCI bus."""
    return nvidia.gpus.value.gpus if nvidia.gpus.value else ()


def numbered(nvidia: Nvidia) -> Iterator[tuple[int, Gpu]]:
    """Yield the GPUs with their numbers in nvidia-smi: the reported ones, else their places on the PCI bus among all
    GPUs.

    A lost GPU keeps its number, though `nvidia-smi -q` omits it."""
    reported = {links.uuid: links.index for links in nvidia.nvlinks.value.gpus} if nvidia.nvlinks.value else {}
    answering = gpus(nvidia)
    numbers = {gpu.bus: reported[gpu.uuid] for gpu in answering if gpu.uuid in reported}
    if len(set(numbers.values())) < len(answering):
        numbers = _bus_places(nvidia)
    return ((numbers[gpu.bus], gpu) for gpu in answering)


def _bus_places(nvidia: Nvidia) -> dict[str, int]:
    """Return bus id → place on the PCI bus. A container's GPUs are only those that answer."""
    own_buses = set() if nvidia.contained else {gpu.bus for gpu in _own(nvidia)}
    buses = own_buses | {gpu.bus for gpu in gpus(nvidia)}
    return {bus: place for place, bus in enumerate(sorted(buses, key=lambda bus: (len(bus), bus)))}


def called(host: Host, index: int, gpu: Gpu) -> str:
    return f"{host.name}: GPU {index} ({gpu.bus})"


def _own(nvidia: Nvidia) -> Iterator[PciGpu]:
    """Return the GPUs on the bus that the host itself is to use."""
    return (gpu for gpu in nvidia.pci if gpu.driver in _FOR_THE_HOST and not gpu.virtual)


def gone(nvidia: Nvidia) -> dict[str, str]:
    """Return the lost GPUs: bus id → symptom.

    A container need not have all GPUs of its host, and an answer that breaks off need not list them."""
    answer = nvidia.gpus.value
    shown = {gpu.bus for gpu in answer.gpus} if answer and not answer.cut else set()
    return {
        gpu.bus: "is on the PCI bus, but nvidia-smi does not list it"
        if gpu.answers
        else "no longer answers on the PCI bus"
        for gpu in _own(nvidia)
        if not gpu.answers or (shown and gpu.bus not in shown and not nvidia.contained)
    }


def xids_of(nvidia: Nvidia) -> tuple[Xid, ...]:
    """Return the Xids of the kernel log. Empty, too, where the log is not known, which GPU107 reports."""
    return nvidia.log.value.lines.xids if nvidia.log.value else ()


def line(error: Xid | SXid) -> str:
    """Return the driver's message with the time of its last line; /dev/kmsg counts microseconds since the boot."""
    when = f"{int(error.last) / 1e6:.0f} s after boot:" if error.last.isdecimal() else error.last
    return f"{when} {error.text}".strip()
