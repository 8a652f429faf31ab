"""A stand-in for CUDA and NCCL on a machine without a GPU: gloo under the name nccl, tensors that stay on the CPU.

GPUS is JSON: how many GPUs torch sees ("count"), whether torch is a CPU build ("cpu_build"), the PCI bus of each index
("buses"), what NCCL writes into its log by device ("log"), and what torch warns of ("warning"). It comes in through
PYTHONPATH, before anything of the product, which knows nothing of it.
"""

import json
import os
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

told = json.loads(os.environ.get("GPUS", "{}"))


def device_count() -> int:
    return int(told["count"])


def is_available() -> bool:
    if "warning" in told:
        warnings.warn(told["warning"], stacklevel=2)
    return device_count() > 0


def set_device(index: int) -> None:
    os.environ["STAND_IN_DEVICE"] = str(index)


def get_device_properties(index: int) -> SimpleNamespace:
    return SimpleNamespace(pci_domain_id=0, pci_bus_id=told["buses"][index], pci_device_id=0)


def write_log() -> None:
    """As NCCL does, into the file that the environment names, if it is told to."""
    import torch.distributed as dist

    path = os.environ.get("NCCL_DEBUG_FILE", "").replace("%p", str(os.getpid()))
    if path and os.environ.get("NCCL_DEBUG") == "INFO" and dist.is_initialized():
        lines = told["log"].get(os.environ["STAND_IN_DEVICE"], [])
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(f"host:{os.getpid()}:7 [0] NCCL INFO {line}\n" for line in lines)


if told:
    import torch
    import torch.distributed as dist

    init = dist.init_process_group

    def init_process_group(backend: str, **options: Any) -> None:
        assert backend == "nccl"
        assert "STAND_IN_DEVICE" in os.environ, "the device has to be current before the group is made"
        init("gloo", **options)
        write_log()

    cuda: Any = torch.cuda
    tensor: Any = torch.Tensor
    distributed: Any = dist
    if not told.get("cpu_build"):
        torch.version.cuda = "12.4"
    cuda.is_available = is_available
    cuda.device_count = device_count
    cuda.set_device = set_device
    cuda.synchronize = lambda: None
    cuda.mem_get_info = lambda _: (1 << 28, 1 << 30)
    cuda.get_device_capability = lambda: (8, 0) if told.get("bf16", True) else (7, 5)
    cuda.get_device_properties = get_device_properties
    tensor.cuda = lambda self, _: self
    distributed.is_nccl_available = lambda: True
    distributed.init_process_group = init_process_group
