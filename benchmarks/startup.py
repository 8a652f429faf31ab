"""Time of the commands that contact no host, against a bare Python start."""

import sys

from benchmarks.measure import PREFLIGHT, Command, machine, medians

BARE = "python -c pass"


def main(runs: int = 21) -> None:
    commands = {BARE: Command((sys.executable, "-c", "pass"))}
    for words in ("--help", "list-checks", "explain PRT101"):
        commands[f"preflight {words}"] = Command((*PREFLIGHT, *words.split()))
    result = medians(commands, runs)
    print(f"start-up, medians of {runs}: milliseconds, times a bare start")
    for name, sample in result.items():
        print(f"  {name:<28}{sample.wall * 1e3:8.1f}{sample.wall / result[BARE].wall:8.1f}")
    print(f"  {machine()}")


if __name__ == "__main__":
    main()
