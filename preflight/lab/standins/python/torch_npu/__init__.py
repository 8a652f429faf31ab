"""STAND-IN of the preflight lab for torch_npu: the part of its face that a probe uses, on top of gloo.

Tensors stay on the CPU. What is real: the collective's bytes cross the device's own network interface; ports are bound
on the host and on the device; a device serves one communicator's process; and what stops HCCL stops this one too, with
HCCL's texts. What is not: speed, memory and everything that computes. Nothing of the vendor's code is in here.
"""

import sys

import torch
import torch.distributed

from torch_npu import npu
from torch_npu.hccl import create_process_group

__version__ = "2.13.0"
STAND_IN = True


def tensor_device(index: int) -> torch.device:  # noqa: ARG001
    """Where tensors for device `index` live. A real torch_npu has no such function: there it is "npu:<index>"."""
    return torch.device("cpu")


torch.npu = npu
sys.modules["torch.npu"] = npu
torch.distributed.Backend.register_backend("hccl", create_process_group, devices=["cpu"])
