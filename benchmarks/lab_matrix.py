"""Faults made in a lab, found by the real probe: whom it names, why, how long that takes. Writes docs/accuracy-lab.md.

`python -m benchmarks.lab_matrix [--only WORD,WORD] [--json DIRECTORY] [FILE]`; `--only` takes some rows again.
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

from benchmarks.lab_matrix_rows import DEVICES, HOSTS, LEAVES, ROWS, Break, Named, Row
from benchmarks.measure import PREFLIGHT, lab, machine, shape

STEP_DEADLINE = 6  # seconds; a hang costs no more than that a round
LARGEST = "4MiB"  # a rank: the least that tells of bandwidth (probe/run.py, PIECE)
RATE = "1gbit"  # what a host sends over gloo; the lab holds its device NICs to the same
_SHOWN = 160  # characters of a cause in the table
_HEAD = f"""# How accurate the probe is, in the lab

Written by `python -m benchmarks.lab_matrix`: each fault is really made in a lab of {HOSTS} hosts of {DEVICES} devices
(`preflight lab break`; {LEAVES} leaves below a spine), the command is run, the fault is fixed. The backend hccl is
the lab's **stand-in, which moves data by gloo** over the real device NICs of the lab; nothing here has run on an NPU.
Host and device NICs are held to {RATE}. `step_deadline` is {STEP_DEADLINE} s, so that a hang takes seconds; a rank
sends {LARGEST} at most. How it decides: [localise.md](localise.md).

*right*: the culprits of the report are those expected, all and nobody else; no failure accuses anybody else; the cause
is told; and it took less than {Row.limit:.0f} s. Where tests cannot tell who it is, more than one answer is right, and
the row says why, as where it may take longer.

| fault | expected | named | cause | s | right |
|---|---|---|---|---:|---|
"""


@dataclass(frozen=True)
class Result:
    """What a command's report said. `accused`: places of failures, of whom the culprits do not speak."""

    row: Row
    named: frozenset[Named]
    accused: frozenset[str]
    cause: str
    seconds: float
    report: Mapping[str, Any]

    def wrong(self) -> list[str]:
        """In words; empty if all is right, however long it took."""
        row, found = self.row, []
        if self.named not in row.expected:
            found.append("not those expected")
        if self.accused:
            found.append(f"accuses {', '.join(sorted(self.accused))}")
        if row.word.lower() not in self.cause.lower():
            found.append(f"says nothing of {row.word!r}")
        culprits = {place.partition("/")[0] for one in self.named for place in one.members}
        if left_out(self.report) - culprits != set(row.left_out):
            found.append("leaves out others than it should")
        return found


def left_out(report: Mapping[str, Any]) -> set[str]:
    return {one["host"] for one in report["left_out"]}


@contextmanager
def prepared() -> Iterator[Path]:
    """A lab with addresses and open ports; yields its directory."""
    with lab(hosts=HOSTS, devices=DEVICES, product="atlas-a2", firewall="none", leaves=LEAVES) as directory:
        inventory = directory / "hosts.toml"
        shape(directory, RATE)
        _run("configure", "--inventory", str(inventory), "-y")
        settings = f'[probe]\nstep_deadline = {STEP_DEADLINE}\nsizes = ["8B", "{LARGEST}"]\n'
        text = inventory.read_text().replace("[probe]\n", settings)
        for backend in ("hccl", "gloo"):
            _inventory(directory, backend).write_text(text.replace('backend = "hccl"', f'backend = "{backend}"'))
        yield directory


def _inventory(directory: Path, backend: str) -> Path:
    return directory / f"{backend}.toml"


def play(row: Row, directory: Path) -> Result:
    """Break, run, fix. RuntimeError where the lab does not do as told, or there is no report."""
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
    failures = [finding for finding in report["findings"] if finding["outcome"] == "fail"]
    culprits = {Named(one["kind"], tuple(sorted(one["members"]))) for one in report["culprits"]}
    bare = [finding for finding in failures if not finding["culprit"] and finding["host"]]
    if row.command[0] == "check":  # what facts tell has no tests, and is no culprit
        culprits |= {_of(finding) for finding in bare}
    speaks_of = {place for one in culprits for place in one.members}
    accused = {_place(finding) for finding in bare}
    strangers = {place for place in accused if not any(_meets(place, other) for other in speaks_of)}
    words = [one["cause"] for one in report["culprits"]]
    words += [" ".join(filter(None, (one["summary"], one["found"], one["cause"]))) for one in failures]
    words += [one["why"] for one in report["left_out"]]
    return Result(row, frozenset(culprits), frozenset(strangers), "; ".join(words), seconds, report)


def _of(finding: Mapping[str, Any]) -> Named:
    return Named("host" if finding["device"] is None else "device", (_place(finding),))


def _place(finding: Mapping[str, Any]) -> str:
    host, device = finding["host"], finding["device"]
    return str(host) if device is None else f"{host}/{device}"


def _meets(place: str, other: str) -> bool:
    """Whether one is the other, or its host."""
    return place == other or place.startswith(f"{other}/") or other.startswith(f"{place}/")


def _where(one: Break) -> tuple[str, ...]:
    return ("--host", one.host, *(() if one.device is None else ("--device", str(one.device))))


def _start(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*PREFLIGHT, *arguments], capture_output=True, text=True, check=False)


def _run(*arguments: str) -> None:
    done = _start(*arguments)
    if done.returncode:
        raise RuntimeError(f"preflight {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def line(result: Result) -> str:
    row = result.row
    expected = " or ".join(_words(names) for names in row.expected)
    cause = " ".join(result.cause.split()).replace("|", "\\|")
    cause = cause if len(cause) <= _SHOWN else cause[:_SHOWN] + " …"
    verdict = "; ".join(complaints(result)) or "yes"
    note = f" ({row.untold})" if row.untold else ""
    cells = (row.name, expected + note, _words(result.named), cause, f"{result.seconds:.0f}", verdict)
    return f"| {' | '.join(cells)} |\n"


def complaints(result: Result) -> list[str]:
    return [*result.wrong(), *(["too slow"] if result.seconds > result.row.limit else [])]


def _words(names: frozenset[Named]) -> str:
    ordered = sorted(names, key=lambda one: (one.kind, one.members))
    return ", ".join(f"{one.kind} {' '.join(one.members)}" for one in ordered) or "nobody"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab_matrix")
    parser.add_argument("--only", default="", help="rows whose name has one of these words; they replace those of FILE")
    parser.add_argument("--json", type=Path, help="a directory for the reports")
    parser.add_argument("file", type=Path, nargs="?", default=Path(__file__).parents[1] / "docs" / "accuracy-lab.md")
    args = parser.parse_args(arguments or [])
    rows = [row for row in ROWS if any(word in row.name for word in args.only.split(","))]
    lines = _lines(args.file.read_text(encoding="utf-8")) if args.only and args.file.exists() else {}
    with prepared() as directory:
        for row in rows:
            result = play(row, directory)
            if args.json:
                args.json.mkdir(parents=True, exist_ok=True)
                file = "-".join(re.findall(r"\w+", row.name)) + ".json"
                (args.json / file).write_text(json.dumps(result.report, indent=1))
            lines[row.name] = line(result)
            print(lines[row.name], end="", flush=True)
    taken = [lines[row.name] for row in ROWS if row.name in lines]
    count = sum(it.rstrip().endswith("| yes |") for it in taken)
    right = f"{count} of {len(taken)} rows right"
    if len(taken) == len(ROWS):
        args.file.write_text(f"{_HEAD}{''.join(taken)}\n{right}, on {machine()}.\n", encoding="utf-8")
    print(f"lab matrix: {right}")


def _lines(text: str) -> dict[str, str]:
    """The table's lines by the rows' names."""
    return {it.split("|")[1].strip(): it for it in text.splitlines(keepends=True) if it.startswith("| ")}


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
