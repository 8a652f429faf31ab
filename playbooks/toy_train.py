"""A training job to try a cluster with: a toy model, DistributedDataParallel, a data set made on the spot.

Every launcher that `preflight launch` prints can start it: torchrun, torch.distributed.launch, a for loop of the shell,
mpirun or srun. With --spawn it starts its processes itself:

  preflight launch --launcher torchrun -- toy_train.py --backend hccl

The model is that of the vendor's example (Linear 10-10, ReLU, Linear 10-5). Every epoch it prints the loss over all
ranks. Its last line says whether all ranks have the same parameters, bit by bit, as DistributedDataParallel promises;
its exit code is 0 only then.
"""

import argparse
import os
import sys
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("gloo", "hccl", "nccl"), default="gloo")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16, help="samples a rank and step")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--samples", type=int, default=512, help="of the whole data set")
    parser.add_argument("--timeout", type=float, default=60, help="seconds that ranks wait for each other")
    parser.add_argument("--spawn", action="store_true", help="start NPROC_PER_NODE processes from this one")
    # Given by torch.distributed.launch, with a dash since torch 2.0; LOCAL_RANK says the same.
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def device_of(backend: str, local_rank: int) -> torch.device:
    """The device of this process, opened: HCCL and NCCL want that before they start."""
    if backend == "gloo":
        return torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(local_rank)
        return torch.device("cuda", local_rank)
    import torch_npu

    torch_npu.npu.set_device(local_rank)
    # `.npu()`, which torch_npu adds, puts a tensor there, whatever it calls that device.
    there: torch.device = torch.ones(1).npu().device  # type: ignore[attr-defined]
    return there


def make_data(samples: int) -> TensorDataset:
    """The same on every rank: nothing has to be copied or downloaded."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, 10, generator=generator)
    return TensorDataset(inputs, torch.sin(inputs @ torch.randn(10, 5, generator=generator)))


def train(args: argparse.Namespace, rank: int, world_size: int, local_rank: int) -> bool:
    """One rank's share; whether all ranks have ended with the same parameters."""
    device = device_of(args.backend, local_rank)
    dist.init_process_group(args.backend, rank=rank, world_size=world_size, timeout=timedelta(seconds=args.timeout))
    torch.manual_seed(rank)  # on purpose another on every rank: DistributedDataParallel has to make them equal
    net = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)).to(device)
    ids = [device.index] if device.type != "cpu" else None
    model = DistributedDataParallel(net, device_ids=ids)
    data = make_data(args.samples)
    sampler: DistributedSampler[object] = DistributedSampler(
        data, num_replicas=world_size, rank=rank
    )  # the rank among all, not the local one
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)  # else every epoch has the same order
        total = torch.zeros(1, device=device)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: loss {total.item() / len(loader) / world_size:.6f}", flush=True)
    same = agree(net, device, world_size)
    if rank == 0:
        print(f"ranks {world_size}: parameters {'agree bit by bit' if same else 'DIFFER'}", flush=True)
    dist.destroy_process_group()
    return same


def agree(net: nn.Module, device: torch.device, world_size: int) -> bool:
    """Whether all ranks have the same bits; every rank is told."""
    mine = torch.cat([parameter.detach().reshape(-1) for parameter in net.parameters()]).to(device)
    of_all = [torch.empty_like(mine) for _ in range(world_size)]
    dist.all_gather(of_all, mine)
    bits = [values.to("cpu").view(torch.int32) for values in of_all]  # NaN is equal to itself, 0.0 is not -0.0
    return all(torch.equal(bits[0], other) for other in bits)


def spawned(local_rank: int, args: argparse.Namespace, first: int, world_size: int) -> None:
    leave(train(args, first + local_rank, world_size, local_rank))


def leave(well: bool) -> NoReturn:
    """End here: where Python takes torch's threads down itself, torch aborts now and then, with its work done."""
    sys.stdout.flush()
    os._exit(not well)


def main() -> None:
    args = arguments()
    if args.spawn:
        here, node = int(os.environ["NPROC_PER_NODE"]), int(os.environ["NODE_RANK"])
        spawn(spawned, (args, node * here, int(os.environ["WORLD_SIZE"])), nprocs=here)  # type: ignore[no-untyped-call]
        return
    rank, world_size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    leave(train(args, rank, world_size, local_rank))


if __name__ == "__main__":
    main()
