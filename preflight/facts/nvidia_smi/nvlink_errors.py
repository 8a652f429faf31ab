"""`nvidia-smi nvlink -e`: what each NVLink of each GPU has counted since the driver was loaded.

Known from what users posted of drivers 470 to 575, with and without the UUID; no capture is at hand. Newer drivers tell
more of a link (packets, bit error rates, corrected symbols), which healthy links have, too, and which is passed over.
"""

import re
from dataclasses import dataclass

from preflight.facts.found import Missing
from preflight.facts.nvidia_smi.trouble import known, trouble
from preflight.facts.quote import quote

LONGEST = 1 << 20  # characters
# Healthy links count nothing here. Older drivers have two kinds of CRC errors, newer ones their sum.
COUNTED = ("Replay", "Recovery", "CRC", "CRC Flit", "CRC Data")
_GPU = re.compile(r"GPU ([0-9]{1,3}): [^\s(][^()]{0,80}?(?: \(UUID: GPU-[0-9a-f-]{36}\))?", re.ASCII)
_LINK = re.compile(r"Link ([0-9]{1,2}): ([A-Za-z][^:]{0,60}): ?(\S.{0,60})", re.ASCII)
_ALL_INACTIVE = "all links are inactive"
_COUNT = re.compile(r"[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True)
class LinkErrors:
    """Of the link `number`; None: not told."""

    number: int
    replay: int | None = None  # packets that were sent again
    recovery: int | None = None  # times that the link was trained anew
    crc: int | None = None  # packets that came damaged


@dataclass(frozen=True)
class GpuLinkErrors:
    index: int
    links: tuple[LinkErrors, ...]


@dataclass(frozen=True)
class NvLinkErrors:
    gpus: tuple[GpuLinkErrors, ...]
    unread: tuple[Missing, ...] = ()


def nvlink_errors(text: str) -> NvLinkErrors | Missing:
    """`nvidia-smi nvlink -e`. What is behind the last line end may be half a number and is not read."""
    counts: dict[int, dict[int, dict[str, int]]] = {}  # GPU → link → kind
    unread: list[Missing] = []
    gpu: dict[int, dict[str, int]] | None = None
    *lines, rest = text[:LONGEST].split("\n")
    for line in filter(None, map(str.strip, lines)):
        if match := _GPU.fullmatch(line):
            index = int(match.group(1))
            if index in counts:
                return Missing("nvidia-smi nvlink -e lists a GPU twice: answers of several hosts or calls are mixed")
            gpu = counts[index] = {}
        elif gpu is not None and (match := _LINK.fullmatch(line)):
            kind, number = match.group(2).strip().removesuffix(" Errors"), int(match.group(1))
            link = gpu.setdefault(number, {})
            if kind in COUNTED and match.group(3) != "N/A":
                if kind in link or not _COUNT.fullmatch(match.group(3)):
                    unread.append(Missing(f"nvidia-smi nvlink -e, GPU {index}: {quote(line)} is not understood"))
                else:
                    link[kind] = int(match.group(3))
        elif gpu is None or _ALL_INACTIVE not in line.lower():  # which GPU115 judges, by nvlink -s
            unread.append(Missing(known(line) or f"nvidia-smi nvlink -e: {quote(line)} is not understood"))
    if not counts:
        return Missing(trouble(text, "nvlink -e"))
    if rest.strip():
        unread.append(Missing(f"nvidia-smi nvlink -e: the text ends inside the line {quote(rest)}"))
    gpus = (GpuLinkErrors(index, tuple(_link(*link) for link in links.items())) for index, links in counts.items())
    return NvLinkErrors(tuple(gpus), tuple(unread[:20]))


def _link(number: int, counts: dict[str, int]) -> LinkErrors:
    both = counts["CRC Flit"] + counts["CRC Data"] if {"CRC Flit", "CRC Data"} <= set(counts) else None
    return LinkErrors(number, counts.get("Replay"), counts.get("Recovery"), counts.get("CRC", both))
