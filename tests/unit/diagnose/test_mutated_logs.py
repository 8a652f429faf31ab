"""The same failures told in other ways: who reads which file first, whose lines come in between, times or none."""

import random
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from preflight.diagnose.catalogue import recognise
from preflight.diagnose.errors.host import MEMORY, kill_of
from preflight.diagnose.gather import Gathered
from preflight.diagnose.judge import diagnosis
from preflight.diagnose.line import parse_line, time_of
from preflight.diagnose.reading import read, sources
from preflight.diagnose.types import Diagnosis, Role

CASES = Path(__file__).parents[2] / "cases" / "diagnose"
JOBS = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted((CASES / "jobs").glob("*.toml"))}
HEALTHY = {
    path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted((CASES / "healthy").glob("*.toml"))
}
LINES = tomllib.loads((CASES / "lines.toml").read_text(encoding="utf-8"))
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[-T ]\d\d:\d\d:\d\d[.,\d]*(?:\+\d\d:\d\d)? ?|\[?(?:\w{3} )?\w{3} +\d+ \d\d:\d\d:\d\d \d{4}\] ?"
    r"|^\w{3} +\d+ \d\d:\d\d:\d\d |(?<=[IWE])\d{3,4} \d\d:\d\d:\d\d\.\d+ ", re.MULTILINE
)  # fmt: skip

Files = dict[str, str]


def looked_at(folder: Path, files: Files, *, backwards: bool = False, encoding: str = "utf-8") -> Diagnosis:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding=encoding)
    gathered = Gathered()
    found = sources([folder])
    for source in reversed(found) if backwards else found:
        assert read(source, gathered) is None
    return diagnosis(gathered)


def without_times(files: Files) -> Files:
    return {name: _TIME.sub("", text) for name, text in files.items()}


def _writers(text: str) -> dict[str, list[str]]:
    """Lines by who wrote them; those of a traceback go with the one before them."""
    by: dict[str, list[str]] = {}
    for line in text.splitlines(keepends=True):
        by.setdefault(parse_line(line, 2026).tag, []).append(line)
    return by


def interleaved(files: Files) -> Files:
    """Each file's writers among each other in another way; of lines without a time, or a writer, none is moved."""
    chance = random.Random(7)

    def mixed(text: str) -> Iterator[str]:
        by = _writers(text)
        if "" in by or any(time_of(line, 2026) is None for lines in by.values() for line in lines):
            yield text
            return
        while by:
            tag = chance.choice(sorted(by))
            yield by[tag].pop(0)
            if not by[tag]:
                del by[tag]

    return {name: "".join(mixed(text)) for name, text in files.items()}


def in_colour(files: Files) -> Files:
    """As a terminal shows it, after a bar that was written over."""
    return {
        name: "".join(f"\r 50%|##   | 1/2\r\x1b[31m{line}\x1b[0m\x1b[K\r\n" for line in text.splitlines())
        for name, text in files.items()
    }


def among_much_else(files: Files) -> Files:
    """Behind a hundred KiB that say nothing."""
    step = f"a step, loss 2.31, Errors: 0, rates {'0.000100 ' * 8}\n"  # each line is judged, which is what takes long
    return {name: step * (100 * 1024 // len(step)) + text for name, text in files.items()}


@pytest.mark.parametrize("how", [interleaved, in_colour, among_much_else])
@pytest.mark.parametrize("name", JOBS)
def test_a_job_told_in_another_way(name: str, how: Callable[[Files], Files], tmp_path: Path) -> None:
    expect = JOBS[name]["expect"]
    found = looked_at(tmp_path, how(JOBS[name]["files"]))
    assert (found.cause.sign.id if found.cause else "") == expect["cause"]
    assert [group.sign.id for group in found.others] == expect.get("others", [])
    assert sorted(group.sign.id for group in found.echoes) == sorted(expect.get("echoes", []))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "gb18030"])
@pytest.mark.parametrize("name", JOBS)
def test_a_job_in_another_encoding(name: str, encoding: str, tmp_path: Path) -> None:
    expect = JOBS[name]["expect"]
    found = looked_at(tmp_path, JOBS[name]["files"], encoding=encoding)
    assert (found.cause.sign.id if found.cause else "") == expect["cause"]
    assert [group.sign.id for group in found.others] == expect.get("others", [])


# torchrun's levels are letters right before the time, W0304, and so gone without it.
_TOLD = [
    (name, how)
    for name in HEALTHY
    for how in (interleaved, in_colour, among_much_else, without_times)
    if (name, how) != ("torch-elastic", without_times)
]


@pytest.mark.parametrize(("name", "how"), _TOLD)
def test_a_healthy_log_told_in_another_way(name: str, how: Callable[[Files], Files], tmp_path: Path) -> None:
    case = HEALTHY[name]
    ranks = range(case["ranks"]) if "ranks" in case else ()
    files = {
        file: "".join(text.format(rank=rank, host=f"node{rank // 8}", device=rank % 8) for rank in ranks) or text
        for file, text in case["files"].items()
    }
    found = looked_at(tmp_path, how(files))
    assert (found.cause, found.others, found.echoes, found.named, found.silent) == (None, (), (), (), ())


@pytest.mark.parametrize("name", JOBS)
def test_files_in_another_order(name: str, tmp_path: Path) -> None:
    expect = JOBS[name]["expect"]
    found = looked_at(tmp_path, JOBS[name]["files"], backwards=True)
    assert (found.cause.sign.id if found.cause else "") == expect["cause"]


# What only times tell: that something was long ago, or late, or that a program failed before others waited.
_OF_TIME = (
    "xid-of-yesterday", "late-rank", "started-late-enough", "program-fails-first", "survived-then-failed",
    "one-goes-on-the-other-not",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in JOBS if name not in _OF_TIME])
def test_a_job_without_times(name: str, tmp_path: Path) -> None:
    """What came first is not known then; that the cause is among those that are told, is."""
    expect = JOBS[name]["expect"]
    found = looked_at(tmp_path, without_times(JOBS[name]["files"]))
    told = [group.sign.id for group in (*([found.cause] if found.cause else []), *found.others)]
    assert expect["cause"] in told if expect["cause"] else not told


_CAUSES = [
    (id_, line)
    for id_, lines in LINES.items()
    for line in lines
    if (sign := recognise(line)) and sign.role in (Role.OWN, Role.LINK)
    if sign.id != MEMORY or not kill_of(line).limited  # of whom that is, more has to be said: limit-of-the-job.toml
]
_WAITS = {
    "rank11.log": "[rank11]:[E203 04:10:06.5 ProcessGroupNCCL.cpp:616] [Rank 11] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=5) ran for 600012 milliseconds before timing out.\n",
    "rank12.log": "[rank12]: RuntimeError: [/x/pair.cc:553] Connection closed by peer [10.1.0.9]:6.\n",
    "rank13.log": "[ERROR] HCCL(9,python3):2026-02-03-04:10:06.007.008 [a.cc:797] [2][Wait][LinkEstablish]wait socket "
    "establish timeout, role[0] rank[3] timeout[120 s]\n",
}


@pytest.mark.parametrize("how", [dict, without_times, in_colour])
@pytest.mark.parametrize(("id_", "line"), _CAUSES)
def test_every_cause_is_named_among_those_who_waited(
    id_: str, line: str, how: Callable[[Files], Files], tmp_path: Path
) -> None:
    found = looked_at(tmp_path, how({"rank3.log": line + "\n", **_WAITS}))
    assert found.cause
    assert found.cause.sign.id == id_
    assert [seen.file for seen in found.cause.seen] == [str(tmp_path / "rank3.log")]
    assert found.others == ()
    assert len(found.echoes) == 3
