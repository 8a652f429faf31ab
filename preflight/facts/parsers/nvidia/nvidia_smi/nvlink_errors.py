"""`nvidia-smi nvlink -e`: error counters of each NVLink of each GPU since the driver was loaded.

The format is known from posts of users with drivers 470 to 595, with and without the UUID, but not from a capture.
NVLink 5 (B200 and newer, from driver 570 on) has other counters, NVML_FI_DEV_NVLINK_COUNT_… of NVML. Their names are
from a post on a healthy B300 with driver 595.91.07, where all were 0. They were 0 on all links of 320 GB200 except one,
which had recovered 505 times and went down days later (marin-community/marin#9086). Such a driver also prints packets,
bit error rates, raw errors of lanes and corrected symbols. Healthy links have these, too, so they are ignored.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import known, lacks, trouble
from preflight.facts.reading import Missing
from preflight.model.text import quote

LONGEST = 1 << 20  # characters
# Counters that are 0 on healthy links. Names are read in any case. Older drivers have two kinds of CRC errors, newer
# drivers their sum.
_CLASSIC = ("replay errors", "recovery errors", "crc errors", "crc flit errors", "crc data errors")
_NVLINK_5 = (
    "malformed packet errors",
    "buffer overrun errors",
    "rx errors",
    "rx remote errors",
    "rx general errors",
    "local link integrity errors",
    "tx discards",
    "link recovery successful events",
    "link recovery failed events",
    "total link recovery events",
    "effective errors",
    "symbol errors",
)
_COUNTERS = frozenset(_CLASSIC + _NVLINK_5)
_GPU = re.compile(r"GPU ([0-9]{1,3}): [^\s(][^()]{0,80}?(?: \(UUID: GPU-[0-9a-f-]{36}\))?", re.ASCII)
_LINK = re.compile(r"Link ([0-9]{1,2}): ([A-Za-z][^:]{0,60}): ?(\S.{0,60})", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,20}", re.ASCII)
_Counts = dict[str, int | None]  # None: N/A, or not understood


@dataclass(frozen=True)
class LinkErrors:
    """The errors of one link. None: not printed. `others`: counters of NVLink 5, by the tool's names in lower case."""

    number: int
    replay: int | None = None  # packets that were sent again
    recovery: int | None = None  # times that the link was trained again
    crc: int | None = None  # packets that arrived damaged
    others: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuLinkErrors:
    index: int
    links: tuple[LinkErrors, ...]


@dataclass(frozen=True)
class NvLinkErrors:
    gpus: tuple[GpuLinkErrors, ...]
    unread: tuple[Missing, ...] = ()


_Links = dict[int, _Counts]  # link → counters


def nvlink_errors(text: str) -> NvLinkErrors | Missing:
    """Parse `nvidia-smi nvlink -e`. Text behind the last line end may be half a number and is not read.

    A link without a known counter is in `unread`, as its errors are not known.
    """
    *lines, cut = text[:LONGEST].split("\n")
    gpus, unread = _read(lines)
    if not gpus:
        return Missing(trouble(text, "nvlink -e"))
    if len({index for index, _ in gpus}) < len(gpus):
        return Missing("nvidia-smi nvlink -e lists a GPU twice: the output of several hosts or calls is mixed together")
    for index, links in gpus:
        if uncounted := [number for number, link in links.items() if not link]:
            sentence = (
                f"nvidia-smi nvlink -e, GPU {index}: link {uncounted[0]} has no error counter that preflight recognizes"
            )
            unread.append(Missing(sentence))
    if cut.strip():
        unread.append(Missing(f"nvidia-smi nvlink -e: the output ends in the middle of the line {quote(cut)}"))
    return NvLinkErrors(tuple(_gpu(index, links) for index, links in gpus), tuple(unread[:20]))


def _read(lines: list[str]) -> tuple[list[tuple[int, _Links]], list[Missing]]:
    """Return the GPUs with their links, and the lines that are not understood."""
    gpus: list[tuple[int, _Links]] = []
    unread: list[Missing] = []
    for line in filter(None, map(str.strip, lines)):
        if match := _GPU.fullmatch(line):
            gpus.append((int(match.group(1)), {}))
        elif gpus and (match := _LINK.fullmatch(line)):
            index, links = gpus[-1]
            link = links.setdefault(int(match.group(1)), {})
            if not _put(link, match.group(2).strip().lower(), match.group(3)):
                unread.append(Missing(f"nvidia-smi nvlink -e, GPU {index}: {quote(line)} is not recognized"))
        elif not gpus or not lacks(line):  # GPU115 checks by nvlink -s that links are up
            unread.append(Missing(known(line) or f"nvidia-smi nvlink -e: {quote(line)} is not recognized"))
    return gpus, unread


def _put(link: _Counts, name: str, value: str) -> bool:
    """Put a known counter into `link`, with None for an unknown value. Return whether the value is understood."""
    if name not in _COUNTERS:
        return True
    if name in link:
        return False
    link[name] = int(value) if _COUNT.fullmatch(value) else None
    return link[name] is not None or value == "N/A"


def _gpu(index: int, links: _Links) -> GpuLinkErrors:
    return GpuLinkErrors(index, tuple(_link(number, counts) for number, counts in links.items()))


def _link(number: int, counts: _Counts) -> LinkErrors:
    flit, data = counts.get("crc flit errors"), counts.get("crc data errors")
    crc_sum = None if flit is None or data is None else flit + data
    crc = counts.get("crc errors")
    return LinkErrors(
        number,
        replay=counts.get("replay errors"),
        recovery=counts.get("recovery errors"),
        crc=crc_sum if crc is None else crc,
        others={name: count for name, count in counts.items() if name in _NVLINK_5 and count is not None},
    )
