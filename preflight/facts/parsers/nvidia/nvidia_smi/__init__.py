"""Parsers of nvidia-smi (checked with drivers 418 to 610), one module per kind of output."""

from preflight.facts.parsers.nvidia.nvidia_smi.error_messages import trouble
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpu, Gpus
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink import NvLinks, nvlink
from preflight.facts.parsers.nvidia.nvidia_smi.nvlink_errors import NvLinkErrors, nvlink_errors
from preflight.facts.parsers.nvidia.nvidia_smi.query import FEW, few, query
from preflight.facts.parsers.nvidia.nvidia_smi.table import NvidiaSmiTable, table
from preflight.facts.parsers.nvidia.nvidia_smi.topology import GpuTopology, topology

__all__ = (
    "FEW",
    "Gpu",
    "GpuTopology",
    "Gpus",
    "NvLinkErrors",
    "NvLinks",
    "NvidiaSmiTable",
    "few",
    "nvlink",
    "nvlink_errors",
    "query",
    "table",
    "topology",
    "trouble",
)
