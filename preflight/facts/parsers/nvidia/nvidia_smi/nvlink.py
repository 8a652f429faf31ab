"""`nvidia-smi nvlink -s`: the speed of each NVLink of each GPU.

A healthy A100 has 12 of 25 GB/s, a healthy H100 18 of 26.562 GB/s.
"""

import re
from dataclasses import dataclass

from preflight.facts.parsers.nvidia.nvidia_smi.trouble import known, lacks, trouble
from preflight.facts.quote import quote
from preflight.facts.reading import Missing

LONGEST = 1 << 20  # characters
_GPU = re.compile(r"GPU ([0-9]{1,3}): (\S[^()]{0,80}) \(UUID: (GPU-[0-9a-f-]{36})\)", re.ASCII)
_LINK = re.compile(r"Link ([0-9]{1,2}): (?:([0-9]{1,4}(?:\.[0-9]{1,6})?) GB/s|<inactive>)", re.ASCII)
_ALL_INACTIVE = "all links are inactive"


@dataclass(frozen=True)
class NvLink:
    """`speed` in GB/s each way; None: the link is inactive."""

    number: int
    speed: float | None


@dataclass(frozen=True)
class GpuNvLinks:
    """`links`: none where the GPU has no NVLink, or is in MIG mode. `all_inactive`: the driver names none since not one
    is up."""

    index: int
    name: str
    uuid: str
    links: tuple[NvLink, ...]
    all_inactive: bool = False


@dataclass(frozen=True)
class NvLinks:
    gpus: tuple[GpuNvLinks, ...]
    unread: tuple[Missing, ...] = ()


def nvlink(text: str) -> NvLinks | Missing:
    """`nvidia-smi nvlink -s`. What is behind the last line end may be half a number and is not read."""
    gpus: list[GpuNvLinks] = []
    links: dict[int, NvLink] = {}
    unread: list[Missing] = []
    *lines, rest = text[:LONGEST].split("\n")
    for line in filter(None, map(str.strip, lines)):
        if match := _GPU.fullmatch(line):
            links = {}
            gpus.append(GpuNvLinks(int(match.group(1)), match.group(2), match.group(3), ()))
        elif gpus and (match := _LINK.fullmatch(line)) and int(match.group(1)) not in links:
            number, speed = int(match.group(1)), match.group(2)
            links[number] = NvLink(number, None if speed is None else float(speed))
            gpu = gpus[-1]
            gpus[-1] = GpuNvLinks(gpu.index, gpu.name, gpu.uuid, tuple(links.values()))
        elif gpus and not links and _ALL_INACTIVE in line.lower():
            gpu = gpus[-1]
            gpus[-1] = GpuNvLinks(gpu.index, gpu.name, gpu.uuid, (), all_inactive=True)
        elif not (gpus and not links and lacks(line)) and len(unread) < 20:
            unread.append(Missing(known(line) or f"nvidia-smi nvlink -s: {quote(line)} is not understood"))
    if rest.strip() and gpus:
        unread.append(Missing(f"nvidia-smi nvlink -s: the text ends inside the line {quote(rest)}"))
    if not gpus:
        return Missing(trouble(text, "nvlink -s"))
    if len({gpu.index for gpu in gpus}) < len(gpus):
        return Missing("nvidia-smi nvlink -s lists a GPU twice: the answers of several hosts or calls are mixed")
    return NvLinks(tuple(gpus), tuple(unread))
