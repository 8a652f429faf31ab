"""Outputs of one host as facts by physical id."""

import re
from collections.abc import Mapping
from dataclasses import asdict

from preflight.facts.parsers.ascend.npu_smi.mapping import ChipId
from preflight.facts.parsers.ascend.npu_smi.table import NpuSmiTable
from preflight.facts.types import Missing, NpuChip, NpuProcess, NpuSmi
from preflight.model.cluster import Product

# Names of chips in the table, by generation. A 910B without a digit is of the first generation.
_PRODUCTS = (
    (Product.ATLAS_A1, re.compile(r"910(A|ProA|ProB|B)")),
    (Product.ATLAS_A2, re.compile(r"910B[0-9]\S*")),
    (Product.ATLAS_A3, re.compile(r"(Ascend)?910(C\w*|_93\S*)?")),
)


def product_of(chip: str) -> Product | None:
    """Return the generation of a chip by its name in the table; None for an unknown name."""
    return next((product for product, pattern in _PRODUCTS if pattern.fullmatch(chip)), None)


def physical(table: NpuSmiTable, ids: tuple[ChipId, ...] | Missing) -> Mapping[tuple[int, int], int] | Missing:
    """Return (NPU, chip) → physical id. Without `-m`, NPU ids 0, 1, 2 … of one chip each are the physical ids."""
    chips = [(row.npu, row.chip) for row in table.chips]
    devices = [row.device for row in table.chips if row.device is not None]
    if len(devices) == len(chips):
        return dict(zip(chips, devices, strict=True))
    if not isinstance(ids, Missing):
        return _by_ids(chips, ids)
    if chips == [(number, 0) for number in range(len(chips))]:
        return {(npu, chip): npu for npu, chip in chips}
    return Missing(f"which chip is which device is not known: {ids.error}")


def _by_ids(chips: list[tuple[int, int]], ids: tuple[ChipId, ...]) -> Mapping[tuple[int, int], int] | Missing:
    device_of = {(row.npu, row.chip): row.device for row in ids}
    missing_chips = [f"NPU {npu} chip {chip}" for npu, chip in chips if (npu, chip) not in device_of]
    return Missing(f"npu-smi info -m does not list {', '.join(missing_chips[:4])}") if missing_chips else device_of


def combined(
    table: NpuSmiTable | Missing, ids: tuple[ChipId, ...] | Missing, users: Mapping[int, str] | None = None
) -> NpuSmi | Missing:
    """Return both outputs of one host as facts by physical id. `users`: process id → its user, if known."""
    if isinstance(table, Missing):
        return table
    device = physical(table, ids)
    if isinstance(device, Missing):
        return device
    processes: list[NpuProcess] = []
    for row in table.processes or ():
        if (row.npu, row.chip) not in device:
            return Missing(f"npu-smi info: process {row.pid} runs on NPU {row.npu}, which is not in the table")
        user = users.get(row.pid) if users else None
        processes.append(NpuProcess(device[row.npu, row.chip], row.pid, row.name, user, row.memory))
    return NpuSmi(
        version=table.version,
        chips=tuple(NpuChip(**(asdict(row) | {"device": device[row.npu, row.chip]})) for row in table.chips),
        processes=tuple(processes),
        processes_listed=table.processes is not None and not table.untold,
    )
