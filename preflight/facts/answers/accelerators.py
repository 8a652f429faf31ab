"""Typed facts about accelerators from the collector's answer. Pure."""

from dataclasses import dataclass

from preflight.facts.output import ToolOutput
from preflight.facts.parsers.ascend.npu_smi import info
from preflight.facts.sections.accelerators import Accelerators

_HUAWEI, _NVIDIA = "0x19e5", "0x10de"
_MOST_CHIPS = 64


@dataclass
class RawAccelerators:
    pci: list[tuple[str, str]]
    npu_nodes: int
    gpu_nodes: int
    npu_smi: ToolOutput | None = None


def accelerators(raw: RawAccelerators) -> Accelerators:
    """Return typed facts from the collector's section."""
    table = info(raw.npu_smi.text) if raw.npu_smi else None
    rows = getattr(table, "chips", ())
    return Accelerators(
        npu_nodes=max(0, raw.npu_nodes),
        gpu_nodes=max(0, raw.gpu_nodes),
        npus=tuple(id_.removeprefix("0x").lower()[:8] for vendor, id_ in raw.pci if vendor == _HUAWEI),
        gpus=sum(vendor == _NVIDIA for vendor, _ in raw.pci),
        chips=tuple(row.name for row in rows[:_MOST_CHIPS]),
    )
