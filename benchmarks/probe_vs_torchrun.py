"""Time of the probe over gloo against torchrun with the same collectives, on two hosts of eight ranks each.

Users have torchrun today. Both run the collectives of all ranks, in every form, type and size, and train a model for
three steps. torchrun makes its data once, compares no values and reports no culprits.
"""

import argparse
import json
import shlex
import subprocess
import tomllib
from dataclasses import asdict
from pathlib import Path

from benchmarks.measure import PREFLIGHT, Command, lab, machine, medians
from preflight.inventory import load
from preflight.probe.request import Request
from preflight.probe.rounds import ProbePlan

# The host firewall is off: gloo connects through ephemeral ports, which no cluster opens by default.
FIREWALL = "none"

SCRIPT = """
import json, sys
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
reductions = {"max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN, "prod": dist.ReduceOp.PRODUCT}

def train():
    model = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 5))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 10)).sum().backward()
        optimizer.step()

for test in json.loads(sys.argv[1]):
    op, form, root = test["op"], test["form"], test["root"]
    dtype = getattr(torch, test["dtype"] or "uint8")
    whole = torch.ones(test["bytes"] // torch.empty(0, dtype=dtype).element_size(), dtype=dtype)
    out, pieces, half = torch.empty_like(whole), list(whole.chunk(size)), whole.chunk(2)
    outs, halves = list(out.chunk(size)), out.chunk(2)
    reduction = reductions.get(test["reduction"], dist.ReduceOp.SUM)
    after, before = (rank + 1) % size, (rank - 1) % size
    for _ in range(test["warmup"] + test["iterations"]):
        if form == "object":
            some, found = {"some": bytes(test["bytes"] // size)}, [None] * size
            if op == "broadcast":
                dist.broadcast_object_list([some], root)
            elif op == "all_gather":
                dist.all_gather_object(found, some)
            elif op == "gather":
                dist.gather_object(some, found if rank == root else None, root)
            else:
                dist.scatter_object_list(found[:1], [some] * size if rank == root else None, root)
        elif op == "all_reduce":
            dist.all_reduce(whole, reduction)
        elif op == "reduce":
            dist.reduce(whole, root, reduction)
        elif op == "broadcast":
            dist.broadcast(whole, root)
        elif op == "scatter":
            dist.scatter(outs[0], pieces if rank == root else None, root)
        elif op == "gather":
            dist.gather(pieces[0], outs if rank == root else None, root)
        elif op == "barrier":
            dist.barrier()
        elif op == "training_step":
            train()
        elif op == "send_recv":
            ops = [dist.P2POp(dist.isend, half[0], after), dist.P2POp(dist.isend, half[1], before)]
            ops += [dist.P2POp(dist.irecv, halves[0], before), dist.P2POp(dist.irecv, halves[1], after)]
            for work in dist.batch_isend_irecv(ops):
                work.wait()
        elif op == "all_gather":
            dist.all_gather(outs, pieces[0]) if form == "list" else dist.all_gather_single(out, pieces[0])
        elif op == "reduce_scatter" and form == "list":
            dist.reduce_scatter(outs[0], pieces, reduction)
        elif op == "reduce_scatter":
            dist.reduce_scatter_single(outs[0], whole, reduction)
        elif op == "all_to_all":
            dist.all_to_all(outs, pieces) if form == "list" else dist.all_to_all_single(out, whole)
dist.destroy_process_group()
"""


def probe(directory: Path) -> Command:
    options = ("--inventory", str(directory / "hosts.toml"), "--backend", "gloo", "--scope", "all")
    return Command((*PREFLIGHT, "probe", *options))


def torchrun(directory: Path) -> Command:
    """Return a command that runs torchrun on both hosts at once over the system's ssh. Copy the script there first."""
    cluster = load(directory / "hosts.toml")
    setup = tomllib.loads((directory / "hosts.toml").read_text())["probe"].get("setup", "true")
    world = (
        ProbePlan(cluster, cluster.hosts, Request("gloo", cluster.probe.sizes), crowded=True).all_devices(1).groups[0]
    )
    tests = json.dumps([asdict(test) for test in world.tests])
    logins = []
    for rank, host in enumerate(cluster.hosts):
        options = f"-F none -i {directory}/id_ed25519 -o UserKnownHostsFile={directory}/known_hosts -o BatchMode=yes"
        login = ["ssh", *options.split(), f"root@{host.address}"]
        subprocess.run([*login, "cat > /tmp/collectives.py"], input=SCRIPT, text=True, check=True)
        python = [
            *(cluster.probe.python, "-m", "torch.distributed.run"),
            *(f"--nnodes={len(cluster.hosts)}", f"--node-rank={rank}", f"--nproc-per-node={len(host.devices)}"),
            *(f"--master-addr={cluster.hosts[0].address}", "--master-port=29500", "/tmp/collectives.py", tests),
        ]
        environment = f"export GLOO_SOCKET_IFNAME={host.nic} OMP_NUM_THREADS=1"
        logins.append(shlex.join([*login, f"{setup}; {environment}; {shlex.join(python)}"]))
    return Command(("sh", "-c", " & ".join(logins[:-1]) + f" & {logins[-1]} && wait"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with lab(hosts=2, devices=8, firewall=FIREWALL) as directory:
        commands = {"torchrun, 2 x 8 ranks": torchrun(directory), "preflight probe, 2 x 8 ranks": probe(directory)}
        result = medians(commands, runs)
    (theirs, ours) = (sample.wall for sample in result.values())
    print(f"the same collectives over gloo, medians of {runs}: seconds of wall time, share of torchrun's")
    for name, sample in result.items():
        print(f"  {name:<32}{sample.wall:8.2f}{sample.wall / theirs:8.2f}")
    print(f"  at most one fifth: {'yes' if ours <= theirs / 5 else 'NO'}")
    print(f"  {machine()}")


if __name__ == "__main__":
    main()
