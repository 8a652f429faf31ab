"""`nvidia-smi nvlink -s`: the speed of each NVLink of each GPU.

A healthy A100 has 12 links of 25 GB/s, a healthy H100 18 links of 26.562 GB/s.
"""

import re
from dataclasses import dataclass, field

from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import known, lacks, trouble
from preflight.facts.reading import Missing
from preflight.model.text import quote

LONGEST = 1 << 20  # characters
_GPU = re.compile(r"GPU ([0-9]{1,3}): (\S[^()]{0,80}) \(UUID: (GPU-[0-9a-f-]{36})\)", re.ASCII)
_LINK = re.compile(r"Link ([0-9]{1,2}): (?:([0-9]{1,4}(?:\.[0-9]{1,6})?) GB/s|<inactive>)", re.ASCII)
_ALL_INACTIVE = "all links are inactive"


@dataclass(frozen=True)
class NvLink:
    """An NVLink. `speed` in GB/s each way. None: the link is inactive."""

    number: int
    speed: float | None


@dataclass(frozen=True)
class GpuNvLinks:
    """A GPU's NVLinks: empty if it has none, or is in MIG mode.

    `all_inactive`: the driver lists no link, because none is up.
    """

    index: int
    name: str
    uuid: str
    links: tuple[NvLink, ...]
    all_inactive: bool = False


@dataclass(frozen=True)
class NvLinks:
    gpus: tuple[GpuNvLinks, ...]
    unread: tuple[Missing, ...] = ()


@dataclass
class _GpuLinks:
    """The lines of one GPU so far."""

    index: int
    name: str
    uuid: str
    links: dict[int, NvLink] = field(default_factory=dict)
    all_inactive: bool = False

    def read(self, line: str) -> bool:
        """Read a line below the GPU's heading. Return whether it is understood."""
        match = _LINK.fullmatch(line)
        if match and int(match.group(1)) not in self.links:
            number, speed = int(match.group(1)), match.group(2)
            self.links[number] = NvLink(number, None if speed is None else float(speed))
            return True
        if self.links:
            return False
        self.all_inactive |= _ALL_INACTIVE in line.lower()
        return lacks(line)

    def result(self) -> GpuNvLinks:
        links = tuple(self.links.values())
        return GpuNvLinks(self.index, self.name, self.uuid, links, self.all_inactive and not links)


def nvlink(text: str) -> NvLinks | Missing:
    """Parse `nvidia-smi nvlink -s`. Text behind the last line end may be half a number and is not read."""
    *lines, cut = text[:LONGEST].split("\n")
    gpus, unknown_lines = _read(lines)
    if not gpus:
        return Missing(trouble(text, "nvlink -s"))
    if len({gpu.index for gpu in gpus}) < len(gpus):
        return Missing("nvidia-smi nvlink -s lists a GPU twice: the output of several hosts or calls is mixed together")
    unread = [
        Missing(known(line) or f"nvidia-smi nvlink -s: {quote(line)} is not recognized") for line in unknown_lines[:20]
    ]
    if cut.strip():
        unread.append(Missing(f"nvidia-smi nvlink -s: the output ends in the middle of the line {quote(cut)}"))
    return NvLinks(tuple(gpu.result() for gpu in gpus), tuple(unread))


def _read(lines: list[str]) -> tuple[list[_GpuLinks], list[str]]:
    """Return the GPUs, and the lines that are not understood."""
    gpus: list[_GpuLinks] = []
    unknown_lines: list[str] = []
    for line in filter(None, map(str.strip, lines)):
        if match := _GPU.fullmatch(line):
            gpus.append(_GpuLinks(int(match.group(1)), match.group(2), match.group(3)))
        elif not gpus or not gpus[-1].read(line):
            unknown_lines.append(line)
    return gpus, unknown_lines
