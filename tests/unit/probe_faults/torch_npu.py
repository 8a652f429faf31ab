"""A torch_npu for the probe's tests: gloo under the name hccl, and whatever FAULT says goes wrong.

FAULT is "KIND RANK": the rank of a group of four (or of FAULT_IN) that misbehaves. The product knows nothing of
it: it comes in through PYTHONPATH, as a broken installation would.
"""

import os
import signal
import sys
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

kind, victim = os.environ.get("FAULT", "none -1").split()
mine = os.environ["WORLD_SIZE"] == os.environ.get("FAULT_IN", "4") and os.environ["RANK"] == victim

if mine and kind == "hang-at-import":
    time.sleep(600)

if kind == "noise":
    print('{"at": "end", "nonce": "guessed", "group": "r1g0", "rank": 0, "end": "closed"}', flush=True)
    sys.stdout.write("x" * 3_000_000 + "\n")
    sys.stderr.write("\x1b[2Jy" * 300_000 + "\n")

if mine and kind == "orphan" and os.fork() == 0:
    while True:
        time.sleep(0.01)
        os.write(1, b"still here\n")


class Npu:
    @staticmethod
    def set_device(index: int) -> None:
        if mine and kind == "no-device":
            raise RuntimeError(f"device {index} is held by another process")

    @staticmethod
    def synchronize() -> None:
        pass

    @staticmethod
    def mem_get_info(_: int) -> tuple[int, int]:
        return 1 << 30, 1 << 30


class Options:
    pass


_C = SimpleNamespace(_distributed_c10d=SimpleNamespace(ProcessGroupHCCL=SimpleNamespace(Options=Options)))


def create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    return dist.ProcessGroupGloo(store, rank, size, timeout)


def faulty_all_reduce(tensor: torch.Tensor) -> None:
    large = mine and tensor.numel() > 1000
    if large and kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if large and kind == "kill-agent":
        os.kill(os.getppid(), signal.SIGKILL)
    if large and kind == "exit":
        os._exit(3)
    if large and kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if large and kind == "pause":
        time.sleep(4)
    if large and kind == "twice":
        tensor.mul_(2)
    all_reduce(tensor)
    if large and kind == "flip":
        tensor[3] += 1


all_reduce = dist.all_reduce
dist.all_reduce = faulty_all_reduce  # type: ignore[assignment]
torch.Tensor.npu = lambda self, _: self  # type: ignore[attr-defined]
torch.npu = Npu  # type: ignore[attr-defined]
dist.Backend.register_backend("hccl", create, devices=["cpu"])
