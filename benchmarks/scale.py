"""Time, processor time and memory of a check of thousands of simulated hosts (`preflight lab fleet`).

`python -m benchmarks.scale [--hosts 1000] [--think 4] [--devices 0] [--bad] [--others]`. `--bad` adds hosts that are
dead, hang or answer with noise. `--others` runs clush and Ansible over the same fleet.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import PREFLIGHT, machine
from preflight.lab.fleet.spec import FleetSpec, SimulatedHost, draw

BAD = ("--dead", "2%", "--hang", "1%", "--garbage", "1%")
ABROAD = 256  # hosts at once of clush and Ansible


@dataclass(frozen=True)
class Run:
    """Seconds until the end and until the first output, processor seconds, and the largest memory in MB."""

    wall: float
    first: float
    cpu: float
    memory: float
    output: str


@contextmanager
def fleet(*options: str) -> Iterator[Path]:
    """Run a fleet, and yield its folder once it answers."""
    with tempfile.TemporaryDirectory(prefix="preflight-fleet-") as folder:
        argv = (*PREFLIGHT, "lab", "fleet", *options, "--dir", folder)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            try:
                if process.stdout is None or "answer" not in process.stdout.readline():
                    raise RuntimeError("the fleet did not start")
                yield Path(folder)
            finally:
                process.send_signal(signal.SIGTERM)


def measured(argv: Sequence[str]) -> Run:
    """Run a command to its end, whatever its exit code."""
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        if process.stdout is None:
            raise RuntimeError("no output")
        output = process.stdout.read(1)
        first = time.perf_counter() - begin
        output += process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - begin
    return Run(wall, first, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output.decode(errors="replace"))


def check(directory: Path) -> Run:
    inventory = str(directory / "hosts.toml")
    return measured((*PREFLIGHT, "check", "--no-probe", "--inventory", inventory, "-o", "jsonl"))


def clush(directory: Path, hosts: Sequence[SimulatedHost], port: int) -> Run:
    """Run `true` on all hosts, with the same keys."""
    options = f"-p {port} -i {directory}/id_ed25519 -oUserKnownHostsFile={directory}/known_hosts -oControlMaster=no"
    names = ",".join(host.address for host in hosts)
    return measured(("clush", "-S", "-q", "-f", str(ABROAD), "-l", "root", "-o", options, "-w", names, "true"))


def ansible(directory: Path, hosts: Sequence[SimulatedHost], port: int) -> Run:
    """Run the ping module on all hosts, with pipelining and the same keys."""
    lines = [
        f"{host.address} ansible_port={port} ansible_user=root ansible_python_interpreter=/usr/bin/python3 "
        f"ansible_ssh_private_key_file={directory}/id_ed25519 "
        f"ansible_ssh_common_args='-oUserKnownHostsFile={directory}/known_hosts -oControlMaster=no'"
        for host in hosts
    ]
    (directory / "ansible.ini").write_text("\n".join(lines) + "\n")
    (directory / "ansible.cfg").write_text("[connection]\npipelining = true\n[defaults]\nstdout_callback = oneline\n")
    os.environ["ANSIBLE_CONFIG"] = str(directory / "ansible.cfg")
    return measured(("ansible", "all", "-i", str(directory / "ansible.ini"), "-f", str(ABROAD), "-m", "ping"))


def line(name: str, run: Run, hosts: int) -> str:
    cpu = run.cpu / hosts * 1e3
    return f"  {name:<44}{run.wall:8.1f} s{run.first:8.1f} s{cpu:8.1f} ms{run.memory:8.0f} MB"


def outcome(run: Run) -> str:
    """Return the verdict of a check, and the number of hosts that failed to answer."""
    events = [json.loads(text) for text in run.output.splitlines() if text.startswith("{")]
    findings = [event["finding"] for event in events if event["kind"] == "finding"]
    without_answer = {it["host"] for it in findings if it["check"] == "HST101" and it["outcome"] in ("fail", "unknown")}
    return f"{len(events)} lines, {len(without_answer)} hosts without an answer"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--think", type=float, default=4.0)
    parser.add_argument("--devices", type=int, default=0)
    parser.add_argument("--bad", action="store_true")
    parser.add_argument("--others", action="store_true")
    args = parser.parse_args(arguments)
    options = ["--hosts", str(args.hosts), "--think", str(args.think), "--devices", str(args.devices)]
    options += BAD if args.bad else ()
    spec = FleetSpec(args.hosts, args.devices, args.think)
    hosts = draw(spec)
    print(f"{args.hosts} simulated hosts x {args.devices} devices, {args.think:g} s until each answers")
    print(f"  {'':<44}{'end':>10}{'1st line':>10}{'CPU a host':>11}{'memory':>11}")
    with fleet(*options) as directory:
        run = check(directory)
        print(line("preflight check --no-probe", run, args.hosts), f" {outcome(run)}", flush=True)
        if args.others and shutil.which("clush"):
            print(line(f"clush -f {ABROAD} true", clush(directory, hosts, spec.port), args.hosts), flush=True)
        if args.others and shutil.which("ansible"):
            print(line(f"ansible -f {ABROAD} -m ping", ansible(directory, hosts, spec.port), args.hosts), flush=True)
    print(f"  {machine()}")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
