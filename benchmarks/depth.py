"""Time of `facts`, basic and full, for two hosts with 8 NPUs each, where every call of a vendor tool takes 100 ms."""

import subprocess
from pathlib import Path

from benchmarks.measure import PREFLIGHT, Command, lab, machine, medians

CALL_MS = 100
LIMITS = {"the basic set": 4.0, "all": 20.0}  # seconds


def facts(directory: Path, *more: str) -> Command:
    place = ("--inventory", str(directory / "hosts.toml"), "--out", str(directory / "facts.json"))
    return Command((*PREFLIGHT, "facts", *place, *more))


def main(runs: int = 5) -> None:
    with lab(hosts=2, devices=8, product="atlas-a2") as directory:
        setting = (*PREFLIGHT, "lab", "set", "call-ms", str(CALL_MS), "--dir", str(directory))
        subprocess.run(setting, check=True, stdout=subprocess.DEVNULL)
        result = medians({"the basic set": facts(directory, "--basic"), "all": facts(directory)}, runs)
    print(f"facts of 2 hosts x 8 devices, {CALL_MS} ms a call, medians of {runs}: seconds, and how many there may be")
    for name, sample in result.items():
        print(f"  {name:<40}{sample.wall:8.2f}{LIMITS[name]:8.2f}")
    print(f"  {machine()}")


if __name__ == "__main__":
    main()
