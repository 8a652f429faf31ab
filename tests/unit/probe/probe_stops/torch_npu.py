"""A torch_npu for the tests of stages: gloo under the name hccl, and ranks that stop where STOPS says.

STOPS is JSON: device → [how, last word]. Rank 1 of the pair on that device writes into its log and stops after it has
reported that word: it "sleep"s, or is "stop"ped. The product knows nothing of it: it comes in through PYTHONPATH, as a
broken installation would.
"""

import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

mine = json.loads(os.environ["STOPS"]).get(os.environ["LOCAL_RANK"]) if os.environ["RANK"] == "1" else None
how, word = mine or ("", "")
write = os.write


def stop() -> None:
    plog("password=hunter2 wait socket establish timeout")
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)


def write_and_stop(fd: int, data: bytes) -> int:
    """os.write, by which a worker says how far it is."""
    written = write(fd, data)
    if word and f'"{word}"'.encode() in data:
        stop()
    return written


def plog(text: str) -> None:
    """A line in the form of CANN's log, in the file of this process."""
    folder = Path(os.environ["ASCEND_PROCESS_LOG_PATH"]) / "debug" / "plog"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"plog-{os.getpid()}_20260101000000000.log").open("a") as file:
        file.write(f"[ERROR] HCCL({os.getpid()},python3):2026-01-01-00:00:00.000.001 [test.cc:1] {text}\n")


class Npu:
    @staticmethod
    def set_device(_: int) -> None:
        pass

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


torch.Tensor.npu = lambda self, _: self  # type: ignore[attr-defined]
torch.npu = Npu  # type: ignore[attr-defined]
dist.Backend.register_backend("hccl", create, devices=["cpu"])
os.write = write_and_stop  # type: ignore[assignment]
if word == "torch":
    stop()
