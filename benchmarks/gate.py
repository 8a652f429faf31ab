"""Time of the node gate on a lab host, without environment as Slurm starts it, against a bare Python start."""

import json
import statistics
import subprocess
from pathlib import Path

from benchmarks.measure import PREFLIGHT, Command, lab, machine, sample

BARE = "python3 -IS -c pass"
GATE = "preflight-gate --local"
VERDICT = "/var/lib/preflight/verdict.json"
HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
HANG = f"mv {HCCN_TOOL} {HCCN_TOOL}.away; printf '#!/bin/sh\\nexec sleep 60\\n' > {HCCN_TOOL}; chmod 755 {HCCN_TOOL}"
# Print median seconds of commands in turns, after one warm-up. It runs on the host, to leave out the connection.
IN_TURNS = """
import json, statistics, subprocess, sys, time
taken = {command: [] for command in sys.argv[2:]}
for turn in range(int(sys.argv[1]) + 1):
    for command in taken:
        begin = time.perf_counter()
        code = subprocess.call(command.split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if code not in (0, 3):
            sys.exit("%s ended with %d" % (command, code))
        if turn:
            taken[command].append(time.perf_counter() - begin)
print(json.dumps([statistics.median(times) for times in taken.values()]))
"""


class Host:
    """The first host of a lab, accessed through its namespaces."""

    def __init__(self, directory: Path) -> None:
        status = [*PREFLIGHT, "lab", "status", "--dir", str(directory), "-o", "json"]
        found = json.loads(subprocess.run(status, check=True, capture_output=True).stdout)["hosts"][0]
        self.way = ("nsenter", "-a", "-t", str(found["pid"]), "env", "-i", "PATH=/usr/local/sbin:/usr/bin:/bin")

    def run(self, *argv: str) -> str:
        return subprocess.run([*self.way, *argv], check=True, capture_output=True, text=True).stdout

    def in_turns(self, runs: int) -> tuple[float, float]:
        """Return the seconds of a bare start and of the gate."""
        bare, gate = json.loads(self.run("python3", "-c", IN_TURNS, str(runs), BARE, GATE))
        return bare, gate

    def cold(self, runs: int) -> tuple[float, float]:
        """Return the same with a cold page cache. Both times include the way to the host, 5 ms on a quiet machine."""
        taken: list[list[float]] = [[], []]
        for _ in range(runs):
            for times, command in zip(taken, (BARE, GATE), strict=True):
                Path("/proc/sys/vm/drop_caches").write_text("1", encoding="ascii")
                times.append(sample(Command((*self.way, *command.split()), good=(0, 3))).wall)
        return statistics.median(taken[0]), statistics.median(taken[1])


def main(runs: int = 21) -> None:
    with lab(hosts=2, devices=8, firewall="none") as directory:
        for words in ("configure -y", "gate install -y", "check --no-probe --publish"):
            argv = [*PREFLIGHT, *words.split(), "--inventory", str(directory / "hosts.toml")]
            subprocess.run(argv, check=True, capture_output=True)
        host = Host(directory)
        rows = {"a fresh verdict": host.in_turns(runs), "the same, cold": host.cold(7)}
        host.run("mv", VERDICT, f"{VERDICT}.away")
        rows["no verdict: links and addresses are read"] = host.in_turns(7)
        host.run("sh", "-c", HANG)
        rows["no verdict, and hccn_tool hangs"] = host.in_turns(3)
    print(f"the node's gate on a host with 8 devices, medians of {runs} (7, 7, 3): milliseconds, times a bare start")
    for name, (bare, gate) in rows.items():
        print(f"  {name:<44}{gate * 1e3:8.1f}{gate / bare:8.1f}")
    print(f"  {machine()}")


if __name__ == "__main__":
    main()
