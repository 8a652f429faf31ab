"""STAND-IN of the preflight lab for torch_npu: the part of its face that a probe uses, on top of gloo.

Tensors stay on the CPU. What is real: the collective's bytes cross the device's own network interface; ports are bound
on the host and on the device; a device serves one communicator's process; and what stops HCCL stops this one too, with
HCCL's texts. What is not: speed, memory and everything that computes. Nothing of the vendor's code is in here.

Names without an underscore are those of the real torch_npu, and no others: a test holds them against its wheel.
"""

import os
import sys

import torch
import torch.distributed

from torch_npu import _C, _hccl, _lab, npu

__all__ = ["_C", "npu"]
__version__ = "2.13.0"


def _stay(tensor, device=None, non_blocking=False):  # noqa: ARG001
    """What Tensor.npu is here: on a real one the result lives on the device."""
    return tensor


# The driver is loaded with the import. Which device it will be for, only the launcher has said yet.
_lab.get_stuck(os.environ.get("LOCAL_RANK", ""), "import")

torch.npu = npu
sys.modules["torch.npu"] = npu
torch.Tensor.npu = _stay
torch.distributed.Backend.register_backend("hccl", _hccl.create, extended_api=True, devices=["cpu"])
