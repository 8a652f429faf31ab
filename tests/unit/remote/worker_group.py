"""Ranks of a group without agents: forked by a process that has imported torch and nothing else, over gloo.

`python worker_group.py` reads {"size", "tests", "plant"} and writes what each rank said. `plant` is [rank, what]:
"wrong": that rank's data is changed on its way into every operation, and doubled where it is reduced.
"early": its barriers do not wait.
"trains gradient N", "trains parameter N": in that rank's training step number N that goes wrong.
"lacks NAME…": its torch.distributed has no NAME.
"refuses NAME": its backend says that it has no NAME.
"""

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3] / "preflight/remote"))


def spoil(value: Any, doubled: bool) -> None:
    """Twice as much, or another number at the end."""
    import torch

    for tensor in [value] if isinstance(value, torch.Tensor) else value or ():
        tensor.mul_(2) if doubled else tensor.view(-1)[-1].add_(1)


# Where the data is among the arguments of torch's functions.
SENT = {
    "all_reduce": 0, "broadcast": 0, "reduce": 0, "gather": 0, "send": 0, "scatter": 1, "batch_isend_irecv": 0,
    "all_gather_single": 1, "reduce_scatter_single": 1, "all_to_all_single": 1,
    "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1,
}  # fmt: skip


def wrong(function: Callable[..., Any], place: int) -> Callable[..., Any]:
    def run(*arguments: Any, **options: Any) -> Any:
        data = arguments[place]
        if function.__name__ == "batch_isend_irecv":
            data = [op.tensor for op in data if op.op.__name__ == "isend"]
        if not hasattr(data, "numel") or data.numel() > 1:  # not what lines ranks up
            spoil(data, "reduce" in function.__name__)
        return function(*arguments, **options)

    return run


def plant(what: str) -> None:
    import torch.distributed as dist

    kind, _, name = what.partition(" ")
    if kind == "lacks":
        for other in name.split():
            delattr(dist, other)
    elif kind == "refuses":

        def refuse(*_: Any, **__: Any) -> None:
            raise RuntimeError(f"ProcessGroupGloo does not support {name}")

        setattr(dist, name, refuse)
    elif kind == "trains":
        where, turn = name.split()
        plant_in_training(where, int(turn))
    elif kind == "early":
        dist.barrier = lambda *_, **__: None
    elif kind == "wrong":
        for name, place in SENT.items():
            setattr(dist, name, wrong(getattr(dist, name), place))
        pickle, numbers = dist.distributed_c10d._object_to_tensor, itertools.count()
        dist.distributed_c10d._object_to_tensor = lambda _, *rest: pickle({"from": next(numbers)}, *rest)  # type: ignore[no-untyped-call]


def plant_in_training(what: str, turn: int) -> None:
    """In its training step number `turn` a device computes gradients that are off, or changes the last bit of a
    parameter when it is done with it."""
    import torch
    from worker import rank, training

    step, train, backward, turns = training.training_step, training.train, training.backward, itertools.count()

    def enlarged(net: Any, batch: Any, device: Any, dtype: Any) -> None:
        inputs, targets = batch
        backward(net, (inputs, targets * (2 if dtype is torch.float32 else 1)), device, dtype)  # the host has float64

    def changed(net: Any, batches: Any, device: Any, dtype: Any, synchronise: Any) -> list[float]:
        seconds: list[float] = train(net, batches, device, dtype, synchronise)
        if dtype is torch.float32:
            next(net.parameters()).data.view(-1).view(torch.int32)[4] ^= 1
        return seconds

    def run(*arguments: Any) -> None:
        mine = next(turns) == turn
        training.backward = enlarged if mine and what == "gradient" else backward
        training.train = changed if mine and what == "parameter" else train
        step(*arguments)

    rank.TESTS["training_step"] = run


def be(rank: int, size: int, port: int, tests: Sequence[object], planted: Sequence[Any], out: int) -> None:
    from worker.rank import run

    said: list[dict[str, Any]] = []
    spec = {
        "backend": "gloo", "device": 0, "rank": rank, "size": size, "group": "g", "meets": True,
        "init": "store", "store": ["127.0.0.1", port], "deadline": 20.0, "tests": tests, "workers": [{}] * size,
    }  # fmt: skip
    try:
        for victim, what in planted:
            if victim in (rank, None):
                plant(what)
        run(spec, said.append, lambda: None)
    except BaseException as error:
        said.append({"at": "error", "error": str(error)})
    with os.fdopen(out, "w") as file:
        json.dump(said, file)
    os._exit(0)


def main(size: int, tests: Sequence[dict[str, object]], plant: Iterable[Any] = ()) -> list[object]:
    import socket

    from worker.meeting import serve_store
    from worker.torch_import import import_torch

    import_torch(trains=any(test["op"] == "training_step" for test in tests))
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    sock = socket.create_server(("127.0.0.1", 0))
    pipes = []
    for rank in range(size):
        out, into = os.pipe()
        if os.fork() == 0:
            os.close(out)
            be(rank, size, sock.getsockname()[1], tests, list(plant), into)
        os.close(into)
        pipes.append(out)
    store = serve_store("127.0.0.1", sock)
    said = []
    for pipe in pipes:
        with os.fdopen(pipe) as file:
            said.append(json.load(file))
        os.wait()
    del store
    return said


if __name__ == "__main__":
    json.dump(main(**json.load(sys.stdin)), sys.stdout)
