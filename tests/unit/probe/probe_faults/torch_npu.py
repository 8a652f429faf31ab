"""A torch_npu for the probe's tests: gloo under the name hccl, and whatever FAULT says goes wrong.

FAULT is "KIND RANK": the rank of a group of four (or of FAULT_IN) that misbehaves; of "multiplies-wrongly" it is the
device of each host. The product knows nothing of it: it comes in through PYTHONPATH, as a broken installation would.
"""

import os
import signal
import stat
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
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

if mine and kind == "fork-away" and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        Path("/proc/self/comm").write_text("runaway")
        for fd in range(100):
            with suppress(OSError):
                os.close(fd)
        time.sleep(600)
    os._exit(0)

if mine and kind == "scribble":
    for fd in range(3, 100):
        with suppress(OSError):
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.write(fd, b'\n{"at": "result", "test": 0}\nnot even JSON\n[7]\n{"at": 3}\n\xff\xfe\n')

if mine and kind == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(600)


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


pauses = [4]  # seconds; a rank that pauses once is as late for its deadline as one that always does


def faulty_all_reduce(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
    large = mine and tensor.numel() > 1000
    if large and kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if large and kind == "kill-agent":
        os.kill(os.getppid(), signal.SIGKILL)
    if large and kind == "freeze-agent":
        os.kill(os.getppid(), signal.SIGSTOP)
    if large and kind == "exit":
        os._exit(3)
    if large and kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if large and kind == "pause" and pauses:
        time.sleep(pauses.pop())
    if large and kind == "twice":
        tensor.mul_(2)
    work = all_reduce(tensor, *arguments, **options)
    if large and kind == "flip":
        tensor.view(-1)[3] += 1
    return work


def faulty_product(left: torch.Tensor, right: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    product(left, right, out=out)[5, 7] += 1
    return out


product = torch.mm
if kind == "multiplies-wrongly" and os.environ["LOCAL_RANK"] == victim:
    torch.mm = faulty_product  # type: ignore[assignment]

all_reduce = dist.all_reduce
dist.all_reduce = faulty_all_reduce
torch.Tensor.npu = lambda self, _: self  # type: ignore[attr-defined]
torch.npu = Npu  # type: ignore[attr-defined]
dist.Backend.register_backend("hccl", create, devices=["cpu"])
