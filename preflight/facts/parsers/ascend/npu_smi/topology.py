"""`npu-smi info -t topo`: the links between devices."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from preflight.facts.parsers.ascend.npu_smi.error_messages import trouble
from preflight.facts.reading import Found
from preflight.facts.sections.chips import Topology
from preflight.model.text import quote

LINKS = ("X", "HCCS", "HCCS_SW", "SIO", "PIX", "PXB", "PHB", "SYS", "UB", "NA")
_DEVICE = re.compile(r"(NPU|Phy-ID)([0-9]{1,4})")
_NIC = re.compile(r"NIC[0-9]{1,4}")
_CPUS = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?){0,40}|NA")
_MOST = 128  # devices


@dataclass(frozen=True)
class _ChipHeading:
    """The columns of the table: devices by the tool's names, then host NICs, then CPUs."""

    names: tuple[str, ...]
    nics: int
    with_cpus: bool

    def has(self, at: int, row: list[str]) -> bool:
        """Return whether `row` is the valid row of the device at the index `at`."""
        if len(row) != 1 + len(self.names) + self.nics + self.with_cpus or row[0] != self.names[at]:
            return False
        links = row[1:-1] if self.with_cpus else row[1:]
        if not all(link in LINKS for link in links) or row[1 + at] != "X":
            return False
        return not self.with_cpus or bool(_CPUS.fullmatch(row[-1]))


def topology(text: str) -> Found[Topology]:
    """Parse a row a device, until the legend.

    Newer tools add a column and a row per host NIC, which are left out. 910_93 on ARM prints no CPUs. Rows are named by
    NPU ID, on 910_93 by physical id.
    """
    rows = list(filter(None, map(str.split, text[:100_000].split("\n"))))
    start = next((index for index, row in enumerate(rows) if _DEVICE.fullmatch(row[0])), None)
    if start is None:
        return Found(error=trouble(text, "info -t topo"))
    heading = _heading(rows[start])
    if heading is None:
        return _not_understood(rows[start])
    body = rows[start + 1 : start + 1 + len(heading.names)]
    if unknown_row := next((row for index, row in enumerate(body) if not heading.has(index, row)), None):
        return _not_understood(unknown_row)
    if len(body) < len(heading.names):
        sentence = f"npu-smi info -t topo has {len(heading.names)} columns and {len(body)} rows: the table is cut off"
        return Found(error=sentence)
    return Found(_topology(heading, body))


def _not_understood(row: list[str]) -> Found[Topology]:
    return Found(error=f"npu-smi info -t topo: {quote(' '.join(row))} is not recognized")


def _heading(row: list[str]) -> _ChipHeading | None:
    """Return the columns; None if one is unknown, a device comes twice, or there are too many."""
    names = tuple(filter(_DEVICE.fullmatch, row))
    nics = len(list(filter(_NIC.fullmatch, row)))
    with_cpus = row[-2:] == ["CPU", "Affinity"]
    if len(row) != len(names) + nics + 2 * with_cpus or not 0 < len(set(names)) == len(names) <= _MOST:
        return None
    return _ChipHeading(names, nics, with_cpus)


def _topology(heading: _ChipHeading, rows: list[list[str]]) -> Topology:
    kinds_and_numbers = [match.groups() for match in map(_DEVICE.fullmatch, heading.names) if match]
    return Topology(
        devices=tuple(int(number) for _, number in kinds_and_numbers),
        links=tuple(tuple(row[1 : 1 + len(heading.names)]) for row in rows),
        cpus=tuple(row[-1] for row in rows) if heading.with_cpus else (),
        numbers=kinds_and_numbers[0][0],
    )


def by_device(topology: Topology, physical: Mapping[tuple[int, int], int]) -> Found[Topology]:
    """Return the topology by physical ids. `physical`: (NPU, chip) → physical id."""
    if topology.numbers == "Phy-ID":
        return Found(topology)
    unknown_npus = [npu for npu in topology.devices if (npu, 0) not in physical]
    if unknown_npus:
        return Found(error=f"npu-smi info -t topo lists NPU {unknown_npus[0]}, which npu-smi info does not list")
    return Found(replace(topology, devices=tuple(physical[npu, 0] for npu in topology.devices), numbers="Phy-ID"))
