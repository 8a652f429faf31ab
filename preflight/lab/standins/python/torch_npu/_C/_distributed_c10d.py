"""STAND-IN for torch_npu's compiled part of torch.distributed."""

from torch_npu._hccl import ProcessGroupHCCL

__all__ = ["ProcessGroupHCCL"]
