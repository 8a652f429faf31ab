"""STAND-IN for torch_npu's compiled part: the few names of it that Python code uses."""

from torch_npu._C import _distributed_c10d

__all__ = ["_distributed_c10d"]
