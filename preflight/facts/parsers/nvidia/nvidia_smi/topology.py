"""`nvidia-smi topo -m`: how GPUs and NICs of a host reach each other.

New drivers separate columns by tabs, underline the heading and call NICs NIC0, NIC1 …, with a legend of their names;
old ones separate by blanks and write the names themselves.
"""

import re
from dataclasses import dataclass

from preflight.facts.parsers.nvidia.nvidia_smi.trouble import trouble
from preflight.facts.quote import quote
from preflight.facts.reading import Missing

LONGEST = 1 << 20  # characters
_LINK = re.compile(r"X|NV[0-9]{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|N/A", re.ASCII)
_GPU = re.compile(r"GPU[0-9]{1,3}", re.ASCII)
_DEVICE = re.compile(r"GPU[0-9]{1,3}|NIC[0-9]{1,3}|[a-z][a-z0-9_]{1,15}[0-9]", re.ASCII)
_LEGEND = re.compile(r"(NIC[0-9]{1,3}): ([\w.-]{1,40})", re.ASCII)
_CPUS = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?){0,60}", re.ASCII)
_ESCAPE = re.compile(r"\x1b\[[0-9;]{0,10}m")


@dataclass(frozen=True)
class TopologyRow:
    """`links`: to each of the topology's devices, in their order: X (itself), NV and a number of NVLinks, and from near
    to far PIX, PXB, PHB, NODE, SYS. `cpus` and `numa`: None where the row does not tell."""

    device: str
    links: tuple[str, ...]
    cpus: str | None
    numa: str | None


@dataclass(frozen=True)
class GpuTopology:
    """`devices`: the columns. `nics`: NIC0 → mlx5_0, where there is a legend. `unread`: rows that are missing or not
    understood."""

    devices: tuple[str, ...]
    rows: tuple[TopologyRow, ...]
    nics: dict[str, str]
    unread: tuple[Missing, ...] = ()


def topology(text: str) -> GpuTopology | Missing:
    """`nvidia-smi topo -m`. What is behind the last line end may be half a row and is not read."""
    *lines, rest = (_ESCAPE.sub("", line).rstrip() for line in text[:LONGEST].split("\n"))
    start = next((at for at, line in enumerate(lines) if _is_heading(line)), None)
    if start is None:
        if _is_heading(rest):
            return Missing("nvidia-smi topo -m: the text ends inside the heading")
        headless = any(_GPU.fullmatch(line.split()[0]) and " X " in line for line in lines if line.strip())
        return Missing("nvidia-smi topo -m: the heading is missing" if headless else trouble(text, "topo -m"))
    heading = lines[start].split()
    width = next((at for at, word in enumerate(heading) if not _DEVICE.fullmatch(word)), len(heading))
    devices = tuple(heading[:width])
    with_numa = "NUMA Affinity" in " ".join(heading)
    if len(set(devices)) < len(devices) or len(devices) > 512:
        return Missing(f"nvidia-smi topo -m: the heading {quote(lines[start])} is not understood")
    rows: dict[str, TopologyRow] = {}
    unread: list[Missing] = []
    for line in lines[start + 1 :]:
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
        if not cells or cells[0] not in devices:
            continue
        row = _row(cells, devices, with_numa)
        if row is None or cells[0] in rows:
            unread.append(Missing(f"nvidia-smi topo -m: the row {quote(line)} is not understood"))
            rows.pop(cells[0], None)
        else:
            rows[cells[0]] = row
    if len(rows) < len(devices):
        said = "is cut" if rest.strip() or not unread else "has rows that are not understood"
        unread.append(Missing(f"nvidia-smi topo -m has {len(devices)} columns and {len(rows)} rows: it {said}"))
    legend = (_LEGEND.fullmatch(line.strip()) for line in lines[start + 1 :])
    nics = {match.group(1): match.group(2) for match in legend if match}
    if nics and (nameless := [name for name in devices if name.startswith("NIC") and name not in nics]):
        unread.append(Missing(f"nvidia-smi topo -m: the legend does not name {nameless[0]}"))
    return GpuTopology(devices, tuple(rows.values()), nics, tuple(unread[-20:]))


def _is_heading(line: str) -> bool:
    words = line.split()
    return len(words) > 1 and bool(_GPU.fullmatch(words[0])) and bool(_DEVICE.fullmatch(words[1]) or words[1] == "CPU")


def _row(cells: list[str], devices: tuple[str, ...], with_numa: bool) -> TopologyRow | None:
    links, rest = tuple(cells[1 : len(devices) + 1]), cells[len(devices) + 1 :]
    at = devices.index(cells[0])
    if len(links) < len(devices) or not all(map(_LINK.fullmatch, links)) or links[at] != "X" or links.count("X") != 1:
        return None
    cpus, numa = (*rest, "", "")[:2]
    return TopologyRow(
        cells[0], links, cpus if _CPUS.fullmatch(cpus) else None, numa if with_numa and _CPUS.fullmatch(numa) else None
    )
