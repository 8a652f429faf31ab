"""The lab matrix: faults made in a lab, with the probe's culprits, cause and time. Writes docs/accuracy-lab.md.

`python -m benchmarks.lab_matrix [--only WORD,WORD] [--json DIRECTORY] [FILE]`. `--only` runs some rows again.
`--random 100 --seed 1` runs rows of random faults instead, and `--healthy 50` runs without any. They write no page.
"""

import argparse
import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.lab_matrix_random import healthy_rows, random_rows
from benchmarks.lab_matrix_rows import DEVICES, HOSTS, LEAVES, ROWS, Break, Named, Row
from benchmarks.measure import PREFLIGHT, lab, machine, shape

LARGEST = "4MiB"  # a rank: the smallest size that measures bandwidth (PIECE of the probe)
RATE = "1gbit"  # send rate of a host over gloo; the lab limits its device NICs to the same rate
_SHOWN = 160  # characters of a cause in the table
_HEAD = f"""# Accuracy of the probe in the lab

`python -m benchmarks.lab_matrix` writes this page. The lab has {HOSTS} hosts with {DEVICES} devices each, and
{LEAVES} leaf switches below a spine. For each row, `preflight lab break` makes a real fault, the command runs, and
the fault is fixed.

The backend hccl is the lab's **stand-in, which moves data by gloo** over the real device NICs of the lab. Nothing here
has run on an NPU. Host and device NICs are limited to {RATE}. A rank sends {LARGEST} at most. All other settings are
the defaults. [localise.md](localise.md) explains how the probe decides.

A row is *right* if the culprits of the report are exactly those expected. No failure may be at a host or device outside
the culprits. The report must give the cause, and the run must take less than {Row.limit:.0f} s.

Some rows accept more than one answer, because the tests cannot tell the culprits apart. The row then gives the reason.
A row that may take longer also gives its reason. *cause* quotes the report of that run, up to {_SHOWN} characters.

| fault | expected | reported | cause | s | right |
|---|---|---|---|---:|---|
"""


@dataclass(frozen=True)
class Result:
    """The result of a row. `unexpected` holds the places of failures outside the culprits."""

    row: Row
    named: frozenset[Named]
    unexpected: frozenset[str]
    cause: str
    seconds: float
    report: Mapping[str, Any]

    def wrong(self) -> list[str]:
        """Return the errors of the report, without the time limit. The list is empty if all is right."""
        row, errors = self.row, []
        if self.named not in row.expected:
            errors.append("unexpected culprits")
        if self.unexpected:
            errors.append(f"failures at {', '.join(sorted(self.unexpected))}")
        if row.word.lower() not in self.cause.lower():
            errors.append(f"no {row.word!r} in the cause")
        culprits = {place.partition("/")[0] for culprit in self.named for place in culprit.members}
        if left_out(self.report) - culprits != set(row.left_out):
            errors.append("unexpected hosts left out")
        return errors


def left_out(report: Mapping[str, Any]) -> set[str]:
    """Return the hosts that the report leaves out."""
    return {entry["host"] for entry in report["left_out"]}


@contextmanager
def prepared() -> Iterator[Path]:
    """Set up a lab with addresses and open ports, and yield its directory."""
    with lab(hosts=HOSTS, devices=DEVICES, product="atlas-a2", firewall="none", leaves=LEAVES) as directory:
        inventory = directory / "hosts.toml"
        shape(directory, RATE)
        _run("configure", "--inventory", str(inventory), "-y")
        settings = f'[probe]\nsizes = ["8B", "{LARGEST}"]\n'
        text = inventory.read_text().replace("[probe]\n", settings)
        for backend in ("hccl", "gloo"):
            _inventory(directory, backend).write_text(text.replace('backend = "hccl"', f'backend = "{backend}"'))
        yield directory


def _inventory(directory: Path, backend: str) -> Path:
    return directory / f"{backend}.toml"


def play(row: Row, directory: Path) -> Result:
    """Make the faults of a row, run its command and fix the faults.

    Raise RuntimeError if a command of the lab fails or there is no report.
    """
    try:
        for one in row.breaks:
            _run("lab", "break", one.fault, *_where(one), "--dir", str(directory))
        begin = time.monotonic()
        done = _start(*row.command, "--inventory", str(_inventory(directory, row.backend)), "-o", "json")
        seconds = time.monotonic() - begin
    finally:
        _run("lab", "fix", "--dir", str(directory))
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"{row.name}: no report: {done.stderr[-2000:]}") from None
    return judged(row, report, seconds)


def judged(row: Row, report: Mapping[str, Any], seconds: float) -> Result:
    """Return the result of a row from its report."""
    failures = [finding for finding in report["findings"] if finding["outcome"] == "fail"]
    culprits = {Named(one["kind"], tuple(sorted(one["members"]))) for one in report["culprits"]}
    bare = [finding for finding in failures if not finding["culprit"] and finding["host"]]
    if row.command[0] == "check":  # findings from facts have no tests and no culprit
        culprits |= {_of(finding) for finding in bare}
    members = {place for culprit in culprits for place in culprit.members}
    places = {_place(finding) for finding in bare}
    unexpected = {place for place in places if not any(_meets(place, member) for member in members)}
    words = [one["cause"] for one in report["culprits"]]
    words += [" ".join(filter(None, (one["summary"], one["found"], one["cause"]))) for one in failures]
    words += [one["why"] for one in report["left_out"]]
    return Result(row, frozenset(culprits), frozenset(unexpected), "; ".join(words), seconds, report)


def _of(finding: Mapping[str, Any]) -> Named:
    return Named("host" if finding["device"] is None else "device", (_place(finding),))


def _place(finding: Mapping[str, Any]) -> str:
    host, device = finding["host"], finding["device"]
    return str(host) if device is None else f"{host}/{device}"


def _meets(place: str, other: str) -> bool:
    """Return whether the places are equal, or one is the host of the other."""
    return place == other or place.startswith(f"{other}/") or other.startswith(f"{place}/")


def _where(one: Break) -> tuple[str, ...]:
    device = () if one.device is None else ("--device", str(one.device))
    percent = () if one.percent is None else ("--percent", str(one.percent))
    return ("--host", one.host, *device, *percent)


def _start(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*PREFLIGHT, *arguments], capture_output=True, text=True, check=False)


def _run(*arguments: str) -> None:
    done = _start(*arguments)
    if done.returncode:
        raise RuntimeError(f"preflight {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def line(result: Result) -> str:
    """Return the table line of a result."""
    row = result.row
    expected = " or ".join(_words(names) for names in row.expected)
    cause = " ".join(result.cause.split()).replace("|", "\\|")
    cause = cause if len(cause) <= _SHOWN else cause[:_SHOWN] + " …"
    verdict = "; ".join(complaints(result)) or "yes"
    note = f" ({row.untold})" if row.untold else ""
    cells = (row.name, expected + note, _words(result.named), cause, f"{result.seconds:.0f}", verdict)
    return f"| {' | '.join(cells)} |\n"


def complaints(result: Result) -> list[str]:
    """Return the errors of a result, with the time limit."""
    return [*result.wrong(), *(["too slow"] if result.seconds > result.row.limit else [])]


def healthy_places(result: Result) -> set[str]:
    """Return the members of culprits that no expected culprit contains or is in."""
    named = {place for culprit in result.named for place in culprit.members} | result.unexpected
    faulty = {place for names in result.row.expected for culprit in names for place in culprit.members}
    return {place for place in named if not any(_meets(place, other) for other in faulty)}


def _words(names: frozenset[Named]) -> str:
    ordered = sorted(names, key=lambda one: (one.kind, one.members))
    return ", ".join(f"{one.kind} {' '.join(one.members)}" for one in ordered) or "none"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab_matrix")
    parser.add_argument(
        "--only",
        default="",
        help="only rows with one of these words in their name; they replace those of FILE",
    )
    parser.add_argument("--json", type=Path, help="directory for the reports")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="run N rows of random faults instead")
    parser.add_argument("--healthy", type=int, default=0, metavar="N", help="run N rows without a fault instead")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random faults (default: 1)")
    parser.add_argument("file", type=Path, nargs="?", default=Path(__file__).parents[1] / "docs" / "accuracy-lab.md")
    args = parser.parse_args(arguments or [])
    all_rows = (*random_rows(args.random, args.seed), *healthy_rows(args.healthy)) or ROWS
    rows = [row for row in all_rows if any(word in row.name for word in args.only.split(","))]
    keeps = args.only and all_rows is ROWS and args.file.exists()
    lines = _lines(args.file.read_text(encoding="utf-8")) if keeps else {}
    wrongly_named = 0
    with prepared() as directory:
        for row in rows:
            result = play(row, directory)
            if args.json:
                args.json.mkdir(parents=True, exist_ok=True)
                file = "-".join(re.findall(r"\w+", row.name)) + ".json"
                (args.json / file).write_text(json.dumps(result.report, indent=1))
            lines[row.name] = line(result)
            wrongly_named += bool(healthy_places(result))
            print(lines[row.name], end="", flush=True)
    taken = [lines[row.name] for row in all_rows if row.name in lines]
    count = sum(it.rstrip().endswith("| yes |") for it in taken)
    right = f"{count} of {len(taken)} rows right"
    if len(taken) == len(ROWS) and all_rows is ROWS:
        args.file.write_text(f"{_HEAD}{''.join(taken)}\n{right}, on {machine()}.\n", encoding="utf-8")
    print(f"lab matrix: {right}; a healthy host or device was named in {wrongly_named}")


def _lines(text: str) -> dict[str, str]:
    """Return the lines of the table by row name."""
    return {it.split("|")[1].strip(): it for it in text.splitlines(keepends=True) if it.startswith("| ")}


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
