"""The outputs of one host as facts by physical id."""

import re
from collections.abc import Mapping

from preflight.facts.parsers.ascend.npu_smi.mapping import ChipId
from preflight.facts.parsers.ascend.npu_smi.table import Table
from preflight.facts.types import Missing, NpuChip, NpuProcess, NpuSmi
from preflight.model.cluster import Product

# Names of chips in the table, by generation. A 910B without a digit is of the first.
_PRODUCTS = (
    (Product.ATLAS_A1, re.compile(r"910(A|ProA|ProB|B)")),
    (Product.ATLAS_A2, re.compile(r"910B[0-9]\S*")),
    (Product.ATLAS_A3, re.compile(r"(Ascend)?910(C\w*|_93\S*)?")),
)


def product_of(chip: str) -> Product | None:
    """The generation of a chip by its name in the table; None for one that is not known."""
    return next((product for product, pattern in _PRODUCTS if pattern.fullmatch(chip)), None)


def physical(table: Table, ids: tuple[ChipId, ...] | Missing) -> Mapping[tuple[int, int], int] | Missing:
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
    device = physical(table, ids)
    if isinstance(device, Missing):
        return device
    processes = table.processes or ()
    if stray := [row for row in processes if (row.npu, row.chip) not in device]:
        return Missing(f"npu-smi info: process {stray[0].pid} runs on NPU {stray[0].npu}, which is not in the table")
    return NpuSmi(
        version=table.version,
        chips=tuple(
            NpuChip(
                device[row.npu, row.chip], row.name, row.health, row.busy_percent, row.npu, row.chip, row.bus,
                row.hbm_used, row.hbm_total, row.ddr_used, row.ddr_total,
            )
            for row in table.chips
        ),
        processes=tuple(
            NpuProcess(device[row.npu, row.chip], row.pid, row.name, (users or {}).get(row.pid), row.memory)
            for row in processes
        ),
        processes_listed=table.processes is not None and not table.untold,
    )  # fmt: skip
