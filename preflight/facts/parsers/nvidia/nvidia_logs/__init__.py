"""Logs in which NVIDIA's drivers and services report errors, a module a log."""

from preflight.facts.parsers.nvidia.nvidia_logs.fabric_manager import FabricManagerLog, fabric_manager
from preflight.facts.parsers.nvidia.nvidia_logs.kernel import KernelLog, SXid, Xid, xids

__all__ = ("FabricManagerLog", "KernelLog", "SXid", "Xid", "fabric_manager", "xids")
