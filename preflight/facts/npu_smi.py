"""What `npu-smi info` and `npu-smi info -m` print (Ascend; 910A from driver 20.x, 910B, 910_93 and 310P).

The table has two lines a chip. Column widths differ by generation, so cells are told apart by what they hold: the
second line has a PCI bus id. `-i` of hccn_tool and the N of /dev/davinciN are *physical* ids: 910_93 and 310P print
them in the table, for the others `-m` maps NPU and chip to them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from preflight.facts.quote import quote
from preflight.facts.types import Missing, NpuChip, NpuProcess, NpuSmi
from preflight.model.cluster import Product


@dataclass(frozen=True)
class ChipRow:
    """One chip of the table. `device`: physical id, where the table has one."""

    npu: int
    chip: int
    device: int | None
    name: str
    health: str
    busy_percent: int | None


@dataclass(frozen=True)
class ProcessRow:
    npu: int
    chip: int
    pid: int
    name: str


@dataclass(frozen=True)
class Table:
    """`npu-smi info`. `processes` is None where the tool printed no process table: then nobody knows who is busy."""

    version: str
    chips: tuple[ChipRow, ...]
    processes: tuple[ProcessRow, ...] | None


@dataclass(frozen=True)
class ChipId:
    """A line of `npu-smi info -m`. `device`: physical id; the logic id where the tool prints no physical one."""

    npu: int
    chip: int
    device: int
    name: str


# Names of chips in the table, by generation. A 910B without a digit is of the first.
_PRODUCTS = (
    (Product.ATLAS_A1, re.compile(r"910(A|ProA|ProB|B)")),
    (Product.ATLAS_A2, re.compile(r"910B[1-9]\w*")),
    (Product.ATLAS_A3, re.compile(r"Ascend910|910C\w*|910_93\w*")),
)

_NUMBER = r"(\d{1,9})"
_VERSION = re.compile(r"npu-smi\s+\S{1,60}\s+Version:\s*(\S{1,60})")
_CARD = re.compile(_NUMBER + r"\s+([A-Za-z0-9]*[A-Za-z][\w-]{0,40})")
_CHIP = re.compile(_NUMBER + r"(?:\s+" + _NUMBER + ")?")
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_PAIR = re.compile(_NUMBER + r"\s+" + _NUMBER)
_BUSY = re.compile(r"(\d{1,3})\b")


def product_of(chip: str) -> Product | None:
    """The generation of a chip by its name in the table; None for one that is not known."""
    return next((product for product, pattern in _PRODUCTS if pattern.fullmatch(chip)), None)


def info(text: str) -> Table | Missing:
    """`npu-smi info`. A table without its closing line was cut and is not trusted."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    version = next((match.group(1) for line in lines if (match := _VERSION.search(line))), None)
    if version is None:
        return Missing(f"npu-smi said {quote(text)}")
    if not lines[-1].startswith("+"):
        return Missing("the table of npu-smi info is cut")
    chips: list[ChipRow] = []
    processes: list[ProcessRow] | None = None
    card: tuple[int, str, str] | None = None
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "Process id" in line:
            processes = []
        elif processes is not None and len(cells) == 4 and (pair := _PAIR.fullmatch(cells[0])):
            if not re.fullmatch(_NUMBER, cells[1]):
                return Missing(f"npu-smi info: {quote(line)} is not understood")
            processes.append(ProcessRow(int(pair.group(1)), int(pair.group(2)), int(cells[1]), cells[2][:60]))
        elif processes is None and len(cells) == 3 and _BUS.fullmatch(cells[1]):
            match = _CHIP.fullmatch(cells[0])
            if match is None or card is None:
                return Missing(f"npu-smi info: {quote(line)} is not understood")
            device = int(match.group(2)) if match.group(2) else None
            busy = _BUSY.match(cells[2])
            chips.append(ChipRow(card[0], int(match.group(1)), device, *card[1:], int(busy.group(1)) if busy else None))
        elif processes is None and len(cells) == 3 and (match := _CARD.fullmatch(cells[0])):
            card = (int(match.group(1)), match.group(2), cells[1][:20])
    if not chips:
        return Missing("npu-smi info lists no chip")
    return Table(version, tuple(chips), None if processes is None else tuple(processes))


def mapping(text: str) -> tuple[ChipId, ...] | Missing:
    """`npu-smi info -m`: which physical id an NPU's chip has. Rows of the `Mcu` are no chips."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]
    header = rows[0] if rows else []
    if header[:2] != ["NPU ID", "Chip ID"] or "Chip Logic ID" not in header:
        return Missing(f"npu-smi info -m said {quote(text)}")
    column = header.index("Chip Phy-ID" if "Chip Phy-ID" in header else "Chip Logic ID")
    found = []
    for row in rows[1:]:
        if len(row) != len(header):
            return Missing(f"npu-smi info -m: {quote('  '.join(row))} is not understood")
        if row[-1] == "Mcu":
            continue
        if not all(re.fullmatch(_NUMBER, row[index]) for index in (0, 1, column)):
            return Missing(f"npu-smi info -m: {quote('  '.join(row))} is not understood")
        found.append(ChipId(int(row[0]), int(row[1]), int(row[column]), row[-1]))
    return tuple(found)


def _physical(table: Table, ids: tuple[ChipId, ...] | Missing) -> Mapping[tuple[int, int], int] | Missing:
    """(NPU, chip) → physical id. Without `-m`, NPU ids 0, 1, 2 … of one chip each can only mean themselves."""
    if all(row.device is not None for row in table.chips):
        return {(row.npu, row.chip): row.device for row in table.chips if row.device is not None}
    if isinstance(ids, Missing):
        if [(row.npu, row.chip) for row in table.chips] == [(number, 0) for number in range(len(table.chips))]:
            return {(row.npu, 0): row.npu for row in table.chips}
        return Missing(f"which chip is which device is not known: {ids.error}")
    known = {(row.npu, row.chip): row.device for row in ids}
    missing = [f"NPU {row.npu} chip {row.chip}" for row in table.chips if (row.npu, row.chip) not in known]
    return Missing(f"npu-smi info -m does not list {', '.join(missing[:4])}") if missing else known


def combined(
    table: Table | Missing, ids: tuple[ChipId, ...] | Missing, users: Mapping[int, str] | None = None
) -> NpuSmi | Missing:
    """Both outputs of one host as facts by physical id. `users`: process id → whose it is, as far as is known."""
    if isinstance(table, Missing):
        return table
    physical = _physical(table, ids)
    if isinstance(physical, Missing):
        return physical
    processes = table.processes or ()
    if stray := [row for row in processes if (row.npu, row.chip) not in physical]:
        return Missing(f"npu-smi info: process {stray[0].pid} runs on NPU {stray[0].npu}, which is not in the table")
    return NpuSmi(
        version=table.version,
        chips=tuple(
            NpuChip(physical[row.npu, row.chip], row.name, row.health, row.busy_percent) for row in table.chips
        ),
        processes=tuple(
            NpuProcess(physical[row.npu, row.chip], row.pid, row.name, (users or {}).get(row.pid)) for row in processes
        ),
        processes_listed=table.processes is not None,
    )
