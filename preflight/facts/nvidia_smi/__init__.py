"""What nvidia-smi prints (drivers 525 to 560 seen), a module a kind of output."""

from preflight.facts.nvidia_smi.gpu import Gpu, Gpus
from preflight.facts.nvidia_smi.nvlink import NvLinks, nvlink
from preflight.facts.nvidia_smi.query import query
from preflight.facts.nvidia_smi.table import Table, table
from preflight.facts.nvidia_smi.topology import GpuTopology, topology
from preflight.facts.nvidia_smi.trouble import trouble

__all__ = (
    "Gpu", "GpuTopology", "Gpus", "NvLinks", "Table", "nvlink", "query", "table", "topology", "trouble",
)  # fmt: skip
