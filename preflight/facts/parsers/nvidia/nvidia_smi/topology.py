"""`nvidia-smi topo -m`: links between the GPUs and NICs of a host.

New drivers separate columns by tabs, underline the heading and call NICs NIC0, NIC1 …, with a legend of their names.
Old drivers separate columns by blanks and print the names of NICs instead.
"""

import re
from dataclasses import dataclass
from itertools import takewhile

from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import trouble
from preflight.facts.reading import Missing
from preflight.model.text import quote

LONGEST = 1 << 20  # characters
_LINK = re.compile(r"X|NV[0-9]{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|N/A", re.ASCII)
_GPU = re.compile(r"GPU[0-9]{1,3}", re.ASCII)
_DEVICE = re.compile(r"GPU[0-9]{1,3}|NIC[0-9]{1,3}|[a-z][a-z0-9_]{1,15}[0-9]", re.ASCII)
_LEGEND = re.compile(r"(NIC[0-9]{1,3}): ([\w.-]{1,40})", re.ASCII)
_CPUS = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?){0,60}", re.ASCII)
_ESCAPE = re.compile(r"\x1b\[[0-9;]{0,10}m")


@dataclass(frozen=True)
class TopologyRow:
    """A device's links to each device of the topology, in the order of the columns.

    A link is X (the device itself), NV and a number of NVLinks, or from near to far PIX, PXB, PHB, NODE, SYS.
    `cpus` and `numa`: None if the row does not have them.
    """

    device: str
    links: tuple[str, ...]
    cpus: str | None
    numa: str | None


@dataclass(frozen=True)
class GpuTopology:
    """The matrix of links. `devices`: the columns. `nics`: NIC0 → mlx5_0, if there is a legend.

    `unread`: rows that are missing or not understood.
    """

    devices: tuple[str, ...]
    rows: tuple[TopologyRow, ...]
    nics: dict[str, str]
    unread: tuple[Missing, ...] = ()


@dataclass(frozen=True)
class _MatrixHeading:
    devices: tuple[str, ...]
    with_numa: bool


def topology(text: str) -> GpuTopology | Missing:
    """Parse `nvidia-smi topo -m`. Text behind the last line end may be half a row and is not read."""
    *lines, cut = (_ESCAPE.sub("", line).rstrip() for line in text[:LONGEST].split("\n"))
    start = next((index for index, line in enumerate(lines) if _is_heading(line)), None)
    if start is None:
        return Missing(_without_heading(text, lines, cut))
    heading = _heading(lines[start])
    if heading is None:
        return Missing(f"nvidia-smi topo -m: the heading {quote(lines[start])} is not recognized")
    devices, body = heading.devices, lines[start + 1 :]
    rows, unread = _rows(body, heading)
    if len(rows) < len(devices):
        state = "is cut off" if cut.strip() or not unread else "has rows that are not recognized"
        unread.append(Missing(f"nvidia-smi topo -m has {len(devices)} columns and {len(rows)} rows: the table {state}"))
    nics = _legend(body)
    if unnamed_nic := _nic_without_name(devices, nics):
        unread.append(Missing(f"nvidia-smi topo -m: the legend does not list {unnamed_nic}"))
    return GpuTopology(devices, rows, nics, tuple(unread[-20:]))


def _is_heading(line: str) -> bool:
    words = line.split()
    return len(words) > 1 and bool(_GPU.fullmatch(words[0])) and bool(_DEVICE.fullmatch(words[1]) or words[1] == "CPU")


def _without_heading(text: str, lines: list[str], cut: str) -> str:
    """Return why a text without a heading is no topology."""
    if _is_heading(cut):
        return "nvidia-smi topo -m: the output ends in the middle of the heading"
    if any(_GPU.fullmatch(line.split()[0]) and " X " in line for line in lines if line.strip()):
        return "nvidia-smi topo -m: the heading is missing"
    return trouble(text, "topo -m")


def _heading(line: str) -> _MatrixHeading | None:
    """Return the columns of a heading; None if a device has two columns, or if there are too many."""
    words = line.split()
    devices = tuple(takewhile(_DEVICE.fullmatch, words))
    if len(set(devices)) < len(devices) or len(devices) > 512:
        return None
    return _MatrixHeading(devices, "NUMA Affinity" in " ".join(words))


def _rows(lines: list[str], heading: _MatrixHeading) -> tuple[tuple[TopologyRow, ...], list[Missing]]:
    """Return the rows of devices, and those that are not understood. If a device has two rows, neither counts."""
    rows: dict[str, TopologyRow] = {}
    unread: list[Missing] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
        if not cells or cells[0] not in heading.devices:
            continue
        row = _row(cells, heading)
        if row is None or row.device in rows:
            unread.append(Missing(f"nvidia-smi topo -m: the row {quote(line)} is not recognized"))
            rows.pop(cells[0], None)
        else:
            rows[row.device] = row
    return tuple(rows.values()), unread


def _row(cells: list[str], heading: _MatrixHeading) -> TopologyRow | None:
    device, width = cells[0], len(heading.devices)
    links = tuple(cells[1 : width + 1])
    if len(links) < width or not all(map(_LINK.fullmatch, links)):
        return None
    if links[heading.devices.index(device)] != "X" or links.count("X") != 1:
        return None
    cpus, numa = (*cells[width + 1 :], "", "")[:2]
    has_numa = heading.with_numa and _CPUS.fullmatch(numa)
    return TopologyRow(device, links, cpus if _CPUS.fullmatch(cpus) else None, numa if has_numa else None)


def _legend(lines: list[str]) -> dict[str, str]:
    """Return the names of NICs by their columns: NIC0 → mlx5_0."""
    matches = (_LEGEND.fullmatch(line.strip()) for line in lines)
    return {match.group(1): match.group(2) for match in matches if match}


def _nic_without_name(devices: tuple[str, ...], nics: dict[str, str]) -> str:
    """Return the first NIC that the legend does not name; empty if there is no legend."""
    columns = (name for name in devices if name.startswith("NIC") and name not in nics)
    return next(columns, "") if nics else ""
