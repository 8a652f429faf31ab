"""Tools of the benchmarks: commands in turns, their medians, and a lab for them."""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from preflight.inventory import load

PREFLIGHT = (sys.executable, "-m", "preflight")


@dataclass(frozen=True)
class Sample:
    """Seconds of one run of a command: wall time, and CPU time of the process and its children."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Command:
    """A command line and the exit codes of a successful run."""

    argv: Sequence[str]
    good: tuple[int, ...] = (0,)
    env: Mapping[str, str] | None = None


def sample(command: Command) -> Sample:
    """Run a command once. Raise RuntimeError with the end of its output on an unexpected exit code."""
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(command.env or {})},
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in command.good:
            output.seek(0)
            tail = output.read()[-2000:].decode(errors="replace")
            raise RuntimeError(f"{' '.join(command.argv)} ended with {process.returncode}:\n{tail}")
    return Sample(wall, usage.ru_utime + usage.ru_stime)


def medians(commands: Mapping[str, Command], runs: int) -> dict[str, Sample]:
    """Run all commands in turns, `runs` times after one warm-up each, so that load on the machine affects all alike."""
    samples: dict[str, list[Sample]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            taken = sample(command)
            if turn:
                samples[name].append(taken)
    return {
        name: Sample(statistics.median(s.wall for s in taken), statistics.median(s.cpu for s in taken))
        for name, taken in samples.items()
    }


@contextmanager
def lab(
    *, hosts: int, devices: int, product: str = "atlas-a1", firewall: str = "nftables", leaves: int = 1
) -> Iterator[Path]:
    """Set up a lab for a measurement and yield its directory."""
    with tempfile.TemporaryDirectory(prefix="preflight-bench-") as directory:
        arguments = ["--hosts", str(hosts), "--devices", str(devices), "--product", product, "--firewall", firewall]
        arguments += ["--leaves", str(leaves)]
        subprocess.run([*PREFLIGHT, "lab", "up", *arguments, "--dir", directory], check=True, stdout=subprocess.DEVNULL)
        try:
            yield Path(directory)
        finally:
            subprocess.run([*PREFLIGHT, "lab", "down", "--dir", directory], check=True, stdout=subprocess.DEVNULL)


def shape(directory: Path, rate: str) -> None:
    """Limit the send rate of the hosts of a lab. `rate` is in tc's notation (2gbit)."""
    status = subprocess.run(
        [*PREFLIGHT, "lab", "status", "--dir", str(directory), "-o", "json"], check=True, capture_output=True
    )
    nics = {host.name: host.nic for host in load(directory / "hosts.toml").hosts}
    for host in json.loads(status.stdout)["hosts"]:
        shaper = f"root tbf rate {rate} burst 256k latency 50ms"
        argv = ["tc", "-netns", host["netns"], "qdisc", "replace", "dev", str(nics[host["name"]]), *shaper.split()]
        subprocess.run(argv, check=True)


def machine() -> str:
    """Return a line on the machine, for the end of every table."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{os.cpu_count()} cores ({model}), Linux {platform.release()}, Python {platform.python_version()}"
