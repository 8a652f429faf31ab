"""Parsers of logs in which NVIDIA's drivers and services report errors, one module per log."""

from preflight.facts.parsers.nvidia.nvidia_logs.fabric_manager import FabricManagerLog, fabric_manager
from preflight.facts.parsers.nvidia.nvidia_logs.kernel import KernelLog, SXid, Xid, xids

__all__ = ("FabricManagerLog", "KernelLog", "SXid", "Xid", "fabric_manager", "xids")
