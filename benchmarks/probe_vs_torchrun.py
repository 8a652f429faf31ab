"""The probe over gloo against torchrun doing the same collectives on the same two hosts, eight ranks each.

torchrun is what users have today. It only runs the collectives of the probe's first round: it compares no values, tests
no pairs and names nobody.
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
from preflight.probe.rounds import Plan

# The host firewall is off: gloo connects through ephemeral ports, which no cluster opens by default.
FIREWALL = "none"

SCRIPT = """
import json, sys
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
for test in json.loads(sys.argv[1]):
    dtype = getattr(torch, test["dtype"])
    tensor = torch.ones(test["bytes"] // torch.empty(0, dtype=dtype).element_size(), dtype=dtype)
    for _ in range(test["warmup"] + test["iterations"]):
        if test["op"] == "all_reduce":
            dist.all_reduce(tensor)
        else:
            dist.broadcast(tensor, test["root"])
dist.destroy_process_group()
"""


def probe(directory: Path) -> Command:
    return Command((*PREFLIGHT, "probe", "--inventory", str(directory / "hosts.toml"), "--backend", "gloo"))


def torchrun(directory: Path) -> Command:
    """torchrun on both hosts at once over the system's ssh; the script is put there beforehand."""
    cluster = load(directory / "hosts.toml")
    setup = tomllib.loads((directory / "hosts.toml").read_text())["probe"].get("setup", "true")
    world = Plan(cluster, cluster.hosts, "gloo", cluster.probe.sizes, crowded=True).world().groups[0]
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
