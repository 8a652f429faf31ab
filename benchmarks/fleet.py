"""Time of `check` on many lab hosts.

It is compared with clush that runs `true`, with and without devices, until the first line, and with `apply`.
"""

import os
import pty
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.measure import PREFLIGHT, Command, Sample, lab, machine, medians, sample

WENT_WELL = (0, 1, 3)  # a fresh lab is unprovisioned, so the exit code of the check is not 0


def check(directory: Path, *more: str) -> Command:
    inventory = str(directory / "hosts.toml")
    return Command((*PREFLIGHT, "check", "--inventory", inventory, "--pool", "64", *more), good=WENT_WELL)


def clush(directory: Path, hosts: int) -> Command:
    """Return a clush command for the same hosts with the same key and known_hosts, 64 at a time."""
    import tomllib

    inventory = tomllib.loads((directory / "hosts.toml").read_text())
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    addresses = NodeSet(",".join(entry["address"] for entry in inventory["hosts"]), resolver=RESOLVER_NOGROUP)
    if len(addresses) != hosts:
        raise RuntimeError(f"the lab has {len(addresses)} addresses for {hosts} hosts")
    options = f"-i {directory}/id_ed25519 -oUserKnownHostsFile={directory}/known_hosts -oStrictHostKeyChecking=yes"
    return Command(("clush", "-S", "-q", "-f", "64", "-l", "root", "-o", options, "-w", str(addresses), "true"))


def against_clush(hosts: int = 64, runs: int = 5) -> None:
    with lab(hosts=hosts, devices=0, product="cpu") as directory:
        names = (f"clush -f 64, true, {hosts} hosts", f"preflight check --no-probe, {hosts} hosts")
        result = medians(dict(zip(names, (clush(directory, hosts), check(directory, "--no-probe")), strict=True)), runs)
    theirs = result[names[0]]
    print(f"{hosts} hosts without devices, medians of {runs}: seconds, times clush, controller CPU a host")
    for name in names:
        sample = result[name]
        print(f"  {name:<40}{sample.wall:8.2f}{sample.wall / theirs.wall:8.2f}{sample.cpu / hosts * 1e3:8.1f} ms")
    print(f"  {machine()}")


def with_devices(hosts: int = 16, devices: int = 8, runs: int = 5) -> None:
    with lab(hosts=hosts, devices=0, product="cpu") as bare, lab(hosts=hosts, devices=devices) as full:
        options = ("--no-probe", "--no-ping")
        names = (f"{hosts} hosts without devices", f"{hosts} hosts x {devices} devices")
        result = medians(dict(zip(names, (check(bare, *options), check(full, *options)), strict=True)), runs)
    print(f"check --no-probe --no-ping, medians of {runs}: seconds, times without devices")
    for name in names:
        print(f"  {name:<40}{result[name].wall:8.2f}{result[name].wall / result[names[0]].wall:8.2f}")
    print(f"  {machine()}")


def first_line(hosts: int = 64, runs: int = 5) -> None:
    """Measure the seconds that a user waits for the first line."""
    with lab(hosts=hosts, devices=0, product="cpu") as directory:
        taken = [seconds_to_output(check(directory, "--no-probe").argv) for _ in range(runs)]
    print(f"check --no-probe of {hosts} hosts on a terminal, median of {runs}: seconds until the first line")
    print(f"  {statistics.median(taken):.2f}, at most {max(taken):.2f}")
    print(f"  {machine()}")


def seconds_to_output(argv: Sequence[str]) -> float:
    """Return the seconds until the command first writes to its terminal, and let the command end."""
    ours, its = pty.openpty()
    begin = time.perf_counter()
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=its, stderr=its):
        os.close(its)
        os.read(ours, 1)
        taken = time.perf_counter() - begin
        with suppress(OSError):  # EIO marks the end of a terminal
            while os.read(ours, 65536):
                pass
    os.close(ours)
    return taken


def applying(hosts: int = 64, devices: int = 0, runs: int = 5) -> None:
    """Compare `apply` of a full plan with `check` of the same hosts, in turns. Roll back every run before the next."""
    product = "atlas-a1" if devices else "cpu"
    checks, applies = [], []
    with lab(hosts=hosts, devices=devices, product=product) as directory:
        inventory, plan = directory / "hosts.toml", directory / "plan.json"
        state = {"XDG_STATE_HOME": str(directory)}

        def preflight(*words: str, good: tuple[int, ...] = (0,)) -> Sample:
            return sample(Command((*PREFLIGHT, *words, "--pool", "64"), good, state))

        for turn in range(runs + 1):
            checked = preflight("check", "--no-probe", "--no-ping", "--inventory", str(inventory), good=WENT_WELL)
            preflight("plan", "--inventory", str(inventory), "--out", str(plan), good=WENT_WELL)
            applied = preflight("apply", str(plan), "--yes", "--force-busy")
            (run,) = (directory / "preflight" / "runs").glob("*.jsonl")
            preflight("rollback", run.stem, "--yes", "--force-busy")
            for path in run.parent.glob("*.jsonl"):
                path.unlink()
            if turn:  # the first one warms up
                checks.append(checked.wall)
                applies.append(applied.wall)
    check_, apply_ = statistics.median(checks), statistics.median(applies)
    print(f"{hosts} hosts x {devices} devices, medians of {runs}: seconds, times check")
    print(f"  {'check --no-probe --no-ping':<40}{check_:8.2f}{1:8.2f}")
    print(f"  {'apply of a full plan':<40}{apply_:8.2f}{apply_ / check_:8.2f}")
    print(f"  {machine()}")


def main() -> None:
    against_clush()
    with_devices()
    first_line()
    applying()
    applying(devices=8, runs=3)


if __name__ == "__main__":
    main()
