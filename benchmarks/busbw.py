"""Bus bandwidths of the probe against those of a plain loop, with two ranks on two hosts over gloo.

Both run in turns. The loop synchronises its ranks, times each call, and takes the median of the slower rank's times.
Hosts send at a fixed rate, as a link does. Without it (`--rate none`), the figures of two cores show which process the
scheduler runs first. Single calls of the loop then take one or two times as long as the quickest.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import PREFLIGHT, lab, machine, shape
from preflight.inventory import load

SIZE = 16 << 20  # bytes
OPS = {"all_reduce": 1.0, "all_gather": 0.5, "broadcast": 1.0}  # busbw / algbw with two ranks

LOOP = """
import json, statistics, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
whole, piece = torch.ones(BYTES // 4), torch.ones(BYTES // 8)
calls = {
    "all_reduce": lambda: dist.all_reduce(whole),
    "all_gather": lambda: dist.all_gather_single(whole, piece),
    "broadcast": lambda: dist.broadcast(whole, 0),
}
seconds = {}
for op, call in calls.items():
    times = []
    for turn in range(6):
        whole.fill_(1)
        dist.barrier()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    slower = torch.tensor(times[1:])
    dist.all_reduce(slower, dist.ReduceOp.MAX)
    seconds[op] = statistics.median(slower.tolist())
if dist.get_rank() == 0:
    print(json.dumps(seconds))
dist.destroy_process_group()
"""


def reported(directory: Path) -> dict[str, float]:
    """Return the GB/s that the probe reports, by operation."""
    options = ["--inventory", str(directory / "hosts.toml"), "--backend", "gloo", "--scope", "all", "--quick"]
    argv = [*PREFLIGHT, "probe", *options, "--sizes", str(SIZE), "-o", "json"]
    # The exit code comes from checks that need more rounds than this run has.
    tests = json.loads(subprocess.run(argv, check=False, capture_output=True).stdout)["tests"]
    return {test["op"]: test["busbw_GBps"] for test in tests if test["bytes"] == SIZE and test["op"] in OPS}


def plain_loop(directory: Path) -> Callable[[], dict[str, float]]:
    """Return a call that runs the loop on both hosts at once over the system's ssh. Copy the script there first."""
    cluster = load(directory / "hosts.toml")
    setup = tomllib.loads((directory / "hosts.toml").read_text())["probe"].get("setup", "true")
    logins = []
    for rank, host in enumerate(cluster.hosts):
        options = f"-F none -i {directory}/id_ed25519 -o UserKnownHostsFile={directory}/known_hosts -o BatchMode=yes"
        login = ["ssh", *options.split(), f"root@{host.address}"]
        subprocess.run([*login, "cat > /tmp/loop.py"], input=LOOP.replace("BYTES", str(SIZE)), text=True, check=True)
        place = f"MASTER_ADDR={cluster.hosts[0].address} MASTER_PORT=29500 RANK={rank} WORLD_SIZE={len(cluster.hosts)}"
        environment = f"export GLOO_SOCKET_IFNAME={host.nic} OMP_NUM_THREADS=1 {place}"
        logins.append([*login, f"{setup}; {environment}; {shlex.quote(cluster.probe.python)} /tmp/loop.py"])

    def run() -> dict[str, float]:
        processes = [subprocess.Popen(login, stdout=subprocess.PIPE) for login in logins]
        answers = [process.communicate()[0] for process in processes]
        return {op: SIZE / seconds / 1e9 * OPS[op] for op, seconds in json.loads(answers[0]).items()}

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--rate", default="2gbit", help="send rate of each host in tc's notation, or none (2gbit)")
    options = parser.parse_args()
    runs = options.runs
    with lab(hosts=2, devices=1, firewall="none") as directory:
        if options.rate != "none":
            shape(directory, options.rate)
        ways = {"preflight probe": lambda: reported(directory), "plain loop": plain_loop(directory)}
        taken = {way: [] for way in ways}  # type: dict[str, list[dict[str, float]]]
        for turn in range(runs + 1):
            for way, measure in ways.items():
                found = measure()
                if turn:
                    taken[way].append(found)
    print(f"gloo, 2 ranks, {SIZE >> 20} MiB, at {options.rate}: GB/s of busbw, median of {runs}, lowest, highest")
    for op in OPS:
        figures = {way: sorted(found[op] for found in founds) for way, founds in taken.items()}
        for way, all_ in figures.items():
            print(f"  {op:<12}{way:<18}{statistics.median(all_):8.2f}{all_[0]:8.2f}{all_[-1]:8.2f}")
        ours, theirs = map(statistics.median, figures.values())
        print(f"  {'':<12}{'difference':<18}{ours / theirs - 1:+8.1%}  within 10 %: "
              f"{'yes' if abs(ours / theirs - 1) <= 0.1 else 'NO'}")  # fmt: skip
    print(f"  {machine()}")


if __name__ == "__main__":
    main()
