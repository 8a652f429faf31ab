"""Parsers of npu-smi (Ascend 310, 310P, 910A from driver 20.x on, 910B, 910_93, 950), one module per kind of output."""

from preflight.facts.parsers.ascend.npu_smi.chip import (
    ChipProcess,
    board,
    common,
    hccs,
    health,
    processes,
    superpod,
    usages,
)
from preflight.facts.parsers.ascend.npu_smi.combined import combined, physical, product_of
from preflight.facts.parsers.ascend.npu_smi.error_messages import trouble
from preflight.facts.parsers.ascend.npu_smi.mapping import Card, ChipId, listing, mapping
from preflight.facts.parsers.ascend.npu_smi.table import ChipRow, NpuProcessRow, NpuSmiTable, info
from preflight.facts.parsers.ascend.npu_smi.topology import by_device, topology

__all__ = (
    "Card",
    "ChipId",
    "ChipProcess",
    "ChipRow",
    "NpuProcessRow",
    "NpuSmiTable",
    "board",
    "by_device",
    "combined",
    "common",
    "hccs",
    "health",
    "info",
    "listing",
    "mapping",
    "physical",
    "processes",
    "product_of",
    "superpod",
    "topology",
    "trouble",
    "usages",
)
