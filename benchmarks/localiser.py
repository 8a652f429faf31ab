"""Simulated accuracy of the localiser. Writes docs/accuracy.md: `python -m benchmarks.localiser [FILE]`."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from preflight.lab.fabric import parse_faults
from preflight.lab.simulate import DEADLINE_SECONDS, ROUND_SECONDS, Simulation, simulate

SEED = 2026
# hosts, rails, leaves, faults, noise, runs
CASES = (
    (232, 1, 1, "", 0.0, 200),
    (232, 1, 1, "dead:1", 0.0, 200),
    (232, 1, 1, "dead:2,slow:1,wrong-data:1,one-way:1", 0.0, 200),
    (232, 1, 1, "dead:58", 0.0, 100),
    (232, 1, 1, "dead:77", 0.0, 100),
    (232, 1, 1, "dead:116", 0.0, 50),
    (1024, 1, 1, "dead:341", 0.0, 10),
    (64, 1, 1, "dead:2", 0.01, 200),
    (232, 1, 1, "dead:2", 0.03, 200),
    (1024, 1, 1, "dead:2", 0.03, 60),
    (232, 1, 1, "dead:1,link:2", 0.0, 200),
    (232, 1, 1, "link:2", 0.03, 200),
    (232, 1, 1, "hidden-link:1", 0.0, 50),
    (232, 1, 1, "flaky:1@0.5", 0.0, 200),
    (232, 1, 1, "flaky:1@0.9", 0.0, 200),
    (232, 1, 1, "partition:0.25", 0.0, 100),
    (232, 1, 1, "partition:0.25", 0.03, 100),
    (8, 1, 1, "partition:0.25", 0.0, 200),
    (256, 1, 8, "uplink:1,dead:1", 0.0, 50),
    (256, 1, 8, "slow-uplink:1", 0.0, 50),
    (232, 1, 1, "scale:100", 0.0, 50),
    (232, 1, 1, "combination:3", 0.0, 50),
    (232, 8, 1, "dead:1,device:2,slow-link:1,rail:1", 0.0, 20),
    (4096, 1, 1, "dead:5", 0.0, 3),
)  # fmt: skip
_COSTS = f"{ROUND_SECONDS:.0f} s a round, {DEADLINE_SECONDS:.0f} s where a test hangs, for all rules"
_HEAD = f"""# Accuracy of the localiser

Nothing was run on hardware for this page. The localiser of the product works against a model of a fabric
(`preflight/lab/fabric.py`). `python -m benchmarks.localiser` writes the page. `preflight lab simulate` with
`--seed {SEED}` repeats any row. [localise.md](localise.md) explains how the localiser decides.

| column | meaning |
|---|---|
| noise | share of healthy tests that fail by accident |
| exact | share of runs in which the reported culprits are exactly the drawn faults, in kind and members |
| false | healthy hosts and devices reported as culprits, in all runs together |
| doubted | healthy hosts reported as intermittent, in all runs together |
| missed | drawn faults that were not reported, in all runs together |
| rounds | from least to most, with the final collective of all ranks, which also runs without a fault |
| tests | number of tests in a run, median |
| seconds | modelled time of a run, median; {_COSTS} |
| decoder | the localiser's own time in a run, median |

A rule with very many tests gets fewer runs.

The other rules are favourable models of published tools: two rounds as in DLRover's network check, halving as in
Primus' bisect, and all pairs as in SuperBench's pair-wise mode. They do not search for partitions or scale faults. Only
all pairs searches for links. The rows with such faults show what these rules miss and which hosts they report instead.

| hosts | faults | noise | rule | runs | exact | false | doubted | missed | rounds | tests | seconds | decoder |
|---:|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""


def line(where: str, row: Mapping[str, Any]) -> str:
    """Return the table line of a simulated case."""
    few, many = min(row["rounds"]), max(row["rounds"])
    rounds = f"{few}" if few == many else f"{few}–{many}"
    exact = f"{100 * row['exact'] / row['runs']:.1f} %"
    own = f"{row['decoder_seconds'] * 1e3:.0f} ms" if row["rule"] == "preflight" else ""
    cells = (row["rule"], row["runs"], exact, row["falsely_convicted"], row["falsely_intermittent"], row["missed"])
    return f"| {where} | {' | '.join(map(str, cells))} | {rounds} | {row['tests']} | {row['seconds']:.0f} | {own} |\n"


def main(path: Path = Path(__file__).parents[1] / "docs" / "accuracy.md") -> None:
    begun = time.monotonic()
    text = _HEAD
    for hosts, rails, leaves, faults, noise, runs in CASES:
        setting = Simulation(hosts, rails, leaves, parse_faults(faults), noise, runs, SEED)
        more = [f"{rails} rails"] * (rails > 1) + [f"{leaves} leaves"] * (leaves > 1)
        where = f"{hosts} | {faults.replace(',', ', ') or 'none'}{'; ' + ', '.join(more) if more else ''} | {noise:.0%}"
        for row in simulate(setting, beside=hosts <= 1024):
            text += line(where, row)
    path.write_text(f"{text}\nMade in {time.monotonic() - begun:.0f} s on {machine()}.\n", encoding="utf-8")
    print(f"{path}: {len(CASES)} cases, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
