"""`nvidia-smi nvlink -e`: what each NVLink of each GPU has counted since the driver was loaded.

Known from what users posted of drivers 470 to 595, with and without the UUID; no capture is at hand. NVLink 5 (B200 and
newer, driver 570 on) has other counters, NVML_FI_DEV_NVLINK_COUNT_… of NVML: their names here are those that were
posted of a healthy B300 with driver 595.91.07, where all were 0. They were 0 on all links of 320 GB200 but one, which
had recovered 505 times and went down days later (marin-community/marin#9086). What such a driver tells besides
(packets, bit error rates, raw errors of lanes, corrected symbols) healthy links have, too, and is passed over.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from preflight.facts.parsers.nvidia.nvidia_smi.trouble import known, lacks, trouble
from preflight.facts.quote import quote
from preflight.facts.reading import Missing

LONGEST = 1 << 20  # characters
# Healthy links count nothing here. Names are read in any case. Older drivers have two kinds of CRC errors, newer ones
# their sum.
_CLASSIC = ("replay errors", "recovery errors", "crc errors", "crc flit errors", "crc data errors")
_NVLINK_5 = (
    "malformed packet errors", "buffer overrun errors", "rx errors", "rx remote errors", "rx general errors",
    "local link integrity errors", "tx discards", "link recovery successful events", "link recovery failed events",
    "total link recovery events", "effective errors", "symbol errors",
)  # fmt: skip
_COUNTERS = frozenset(_CLASSIC + _NVLINK_5)
_GPU = re.compile(r"GPU ([0-9]{1,3}): [^\s(][^()]{0,80}?(?: \(UUID: GPU-[0-9a-f-]{36}\))?", re.ASCII)
_LINK = re.compile(r"Link ([0-9]{1,2}): ([A-Za-z][^:]{0,60}): ?(\S.{0,60})", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,20}", re.ASCII)
_Counts = dict[str, int | None]  # None: N/A, or not understood


@dataclass(frozen=True)
class LinkErrors:
    """Of the link `number`; None: not told. `others`: what NVLink 5 counts, by the tool's names in small letters."""

    number: int
    replay: int | None = None  # packets that were sent again
    recovery: int | None = None  # times that the link was trained anew
    crc: int | None = None  # packets that came damaged
    others: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuLinkErrors:
    index: int
    links: tuple[LinkErrors, ...]


@dataclass(frozen=True)
class NvLinkErrors:
    gpus: tuple[GpuLinkErrors, ...]
    unread: tuple[Missing, ...] = ()


def nvlink_errors(text: str) -> NvLinkErrors | Missing:
    """`nvidia-smi nvlink -e`. What is behind the last line end may be half a number and is not read. A link of which no
    counter has a name that is known is told of: it has not been looked at."""
    counts: dict[int, dict[int, _Counts]] = {}  # GPU → link → counter
    unread: list[Missing] = []
    gpu: dict[int, _Counts] | None = None
    *lines, rest = text[:LONGEST].split("\n")
    for line in filter(None, map(str.strip, lines)):
        if match := _GPU.fullmatch(line):
            index = int(match.group(1))
            if index in counts:
                return Missing("nvidia-smi nvlink -e lists a GPU twice: answers of several hosts or calls are mixed")
            gpu = counts[index] = {}
        elif gpu is not None and (match := _LINK.fullmatch(line)):
            link = gpu.setdefault(int(match.group(1)), {})
            if not _put(link, match.group(2).strip().lower(), match.group(3)):
                unread.append(Missing(f"nvidia-smi nvlink -e, GPU {index}: {quote(line)} is not understood"))
        elif gpu is None or not lacks(line):  # GPU115 judges, by nvlink -s, whether links are up
            unread.append(Missing(known(line) or f"nvidia-smi nvlink -e: {quote(line)} is not understood"))
    if not counts:
        return Missing(trouble(text, "nvlink -e"))
    for index, links in counts.items():
        if strange := [number for number, link in links.items() if not link]:
            unread.append(
                Missing(f"nvidia-smi nvlink -e, GPU {index}: link {strange[0]} has no error counter that is known")
            )
    if rest.strip():
        unread.append(Missing(f"nvidia-smi nvlink -e: the text ends inside the line {quote(rest)}"))
    gpus = (GpuLinkErrors(index, tuple(_link(*link) for link in links.items())) for index, links in counts.items())
    return NvLinkErrors(tuple(gpus), tuple(unread[:20]))


def _put(link: _Counts, name: str, value: str) -> bool:
    """Whether it is understood. A counter that is known stands in `link` whatever is said of it."""
    if name not in _COUNTERS:
        return True
    understood = name not in link and (value == "N/A" or bool(_COUNT.fullmatch(value)))
    if name not in link:
        link[name] = int(value) if understood and value != "N/A" else None
    return understood


def _link(number: int, counts: _Counts) -> LinkErrors:
    flit, data = counts.get("crc flit errors"), counts.get("crc data errors")
    both = None if flit is None or data is None else flit + data
    crc = counts.get("crc errors")
    return LinkErrors(
        number, counts.get("replay errors"), counts.get("recovery errors"), both if crc is None else crc,
        {name: count for name, count in counts.items() if name in _NVLINK_5 and count is not None},
    )  # fmt: skip
