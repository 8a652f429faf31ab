"""Logs of many ranks: the work grows with the lines, and what is compared at once is as if compared in pairs."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.diagnose import kills
from preflight.diagnose.gather import Gathered
from preflight.diagnose.judge import diagnosis
from preflight.diagnose.order import Errors, is_before
from preflight.diagnose.reading import read, sources
from preflight.diagnose.survived import AFTER, Below, restart_place
from preflight.diagnose.types import Kill, LoggedError, Role, Sign, Spot, Who

_TIMED = "2026-11-20 10:{:02}:{:02} "
SHAPES: dict[str, Callable[[int], list[str]]] = {
    "no times": lambda rank: [f"[rank{rank}]: RuntimeError: boom"],
    "times": lambda rank: [f"[rank{rank}]: {_TIMED.format(rank // 60 % 60, rank % 60)}RuntimeError: boom"],
    "all different": lambda rank: [f"[rank{rank}]: RuntimeError: boom {'ab' * (rank % 20)} {chr(97 + rank % 26)}"],
    "classes": lambda rank: [f"[rank{rank}]: Some{chr(65 + rank % 26)}{chr(65 + rank // 26)}Error: boom"],
    "one rank": lambda rank: [f"[rank0]: RuntimeError: boom {rank}"],
    "no rank": lambda rank: [f"RuntimeError: boom {rank}"],
    "steps": lambda rank: [f"[rank{rank}]: RuntimeError: boom", f"[rank{rank}]: step {rank % 3} loss 1", "retrying"],
    "cancelled": lambda rank: [
        f"slurmstepd: error: *** STEP {rank}.0 ON node{rank} CANCELLED AT 2026-11-20T10:00:00 ***",
        f"[rank{rank}]: RuntimeError: boom",
    ],
    "launcher": lambda rank: [f"srun: error: node{rank:05}: task {rank}: Killed", f"[rank{rank}]: ValueError: boom"],
    "kernel": lambda rank: [
        f"Nov 20 10:00:{rank % 60:02} node{rank:05} kernel: Memory cgroup out of memory: Killed process {1000 + rank} "
        "(python) total-vm:1kB, anon-rss:1kB, file-rss:0kB",
        f"srun: error: node{rank + 50000}: task {rank}: Killed",
    ],
    "watchdog": lambda rank: [
        f"[rank{rank}]:[E1120 10:59:{rank % 60:02}.123456 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE) ran for 600012 milliseconds",
        f"[rank{rank}]:[E1120 10:59:{rank % 60:02}.2 ProcessGroupNCCL.cpp:1] [PG ID {rank} PG GUID {rank} Rank {rank}] "
        "failure detected by watchdog at work sequence id: 17, last completed work: 16",
    ],
}  # fmt: skip


def calls(log: Path) -> int:
    """Return how many functions are called for the diagnosis of a log."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        logs = Gathered()
        for source in sources([log]):
            read(source, logs)
        diagnosis(logs)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_ranks_are_twice_the_work(shape: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    work = []
    for ranks in (10, 200, 400):
        log.write_text("\n".join(line for rank in range(ranks) for line in SHAPES[shape](rank)) + "\n")
        work.append(calls(log))
    assert work[2] - work[0] < 2.3 * (work[1] - work[0])


def test_errors_that_all_programs_survived_are_put_together_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A union of sets is one call, whatever its size: once for each process it was quadratic, from 65,536 ranks on."""
    unions = 0

    class Foreign(set[LoggedError]):
        def __ror__(self, other: Any) -> set[LoggedError]:
            nonlocal unions
            unions += 1
            return set(other).union(self)

    monkeypatch.setattr(kills, "foreign_kills", lambda *_: Foreign())
    logs = Gathered()
    for rank in range(20):
        spot = Spot("job.log", rank + 1, rank * 40, Who(), 2026, lambda: None)
        logs.add(f"[rank{rank}]: RuntimeError: boom", spot)
    logs.end_file(10 * AFTER, b"")
    groups = diagnosis(logs).hints
    assert sum(len(group.seen) for group in groups) == 20
    assert 1 <= unions <= 3


ERRORS = st.builds(
    LoggedError,
    sign=st.just(Sign("x", Role.OWN, ())),
    who=st.just(Who()),
    time=st.one_of(st.none(), st.sampled_from([0.0, 3.0, 5.0, 6.0, 11.0, 30.0])),
    file=st.sampled_from("abc"),
    number=st.sampled_from([1, 2, 40, 51, 52, 53, 102, 103, 200]),
    text=st.just(""),
)


def is_well_before(seen: LoggedError, other: LoggedError) -> bool:
    if seen.time is not None and other.time is not None and abs(seen.time - other.time) > 5:
        return seen.time < other.time
    return seen.file == other.file and other.number - seen.number > 50


@settings(deadline=None, max_examples=100)
@given(st.lists(ERRORS, max_size=6), ERRORS)
def test_errors_compared_at_once_are_as_compared_in_pairs(errors: list[LoggedError], seen: LoggedError) -> None:
    compared = Errors(errors)
    assert compared.any_before(seen) == any(is_before(error, seen) for error in errors)
    assert compared.all_after(seen) == all(is_before(seen, error) for error in errors)
    assert compared.any_well_before(seen) == any(
        is_well_before(error, seen) and not is_before(seen, error) for error in errors
    )


TAGS = ("rank0", "rank1", "")
PREFIXES = {"rank0": "[rank0]: ", "rank1": "[rank1]: ", "": ""}
WORDS = (
    "step 1 loss 1", "step 2 loss 1", "retrying", "giving up, not retrying", "please retry: retrying", "x", "",
    "INFO step 3", "INFO step 4", "training finished", "ValueError: boom", "  File x", "10%| | 1/9", "20%| | 2/9",
)  # fmt: skip
LINES = st.tuples(st.sampled_from(TAGS), st.sampled_from(WORDS)).map(lambda line: PREFIXES[line[0]] + line[1])


@settings(deadline=None, max_examples=100)
@given(st.lists(LINES, max_size=30))
def test_lines_below_an_error_are_the_same_whatever_was_asked_before(lines: list[str]) -> None:
    text = "\n".join(lines).encode()
    places = [place for place in range(len(text) + 1) if not place or text[place - 1 : place] == b"\n"]
    shared = Below(text)
    for place in places:
        for tag in TAGS:
            assert shared.went_on(place, tag) == Below(text[place:]).went_on(0, tag)


@pytest.mark.parametrize(
    ("lines", "went_on"),
    [
        (["[rank0]: retrying"], True),
        (["[rank1]: retrying"], False),
        (["[rank0]: x"] * 6 + ["[rank0]: retrying"], False),
        (["[rank1]: x"] * 6 + ["[rank0]: retrying"], True),
        (["[rank0]: ValueError: x"] * 6 + ["[rank0]: retrying"], True),
        (["[rank0]: INFO step 1", "[rank0]: INFO step 2"], True),
        (["[rank0]: step 1", "[rank0]: step 2"], False),
        (["[rank0]: training finished"], True),
        (["x" * 99] * (AFTER // 100 + 1) + ["[rank0]: training finished"], False),
    ],
)
def test_only_its_writer_near_below_says_that_it_went_on(lines: list[str], went_on: bool) -> None:
    assert Below("\n".join(lines).encode()).went_on(0, "rank0") == went_on


def test_a_restart_is_told_from_the_last_place_on_from_which_all_of_it_is_below() -> None:
    lines = [b"restarting\n", b"step 1\n", b"step 2\n", b"training finished\n"]
    assert restart_place(b"".join(lines)) == 0
    assert restart_place(b"x\n" + b"".join(lines)) == 2
    assert restart_place(b"".join(lines[:3])) == -1
    assert restart_place(b"".join([lines[0], lines[1], lines[3]])) == -1
    assert restart_place(b"".join(lines[1:])) == -1


HOSTS = st.sampled_from(["", "n1", "n1.dc", "n1.dc.x", "n2", "n1dc", "10.0.0.1", "10.0.0.2", "node[1-2]", "N1"])
TIMES = st.one_of(st.none(), st.sampled_from([0.0, 200.0, 300.0, 301.0, 700.0]))
KILL = Kill(None, "python", "", limited=True)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(HOSTS, TIMES), max_size=4), HOSTS, TIMES)
def test_kills_compared_at_once_are_as_compared_in_pairs(
    killed: list[tuple[str, float | None]], host: str, time: float | None
) -> None:
    def seen(host: str, time: float | None) -> LoggedError:
        return LoggedError(Sign("killed", Role.OWN, ()), Who(host=host), time, "f", 1, "", kill=KILL)

    pairs = any(
        kills._may_be_same(other, host) and (time is None or at is None or abs(time - at) <= 300)
        for other, at in killed
    )
    assert kills._Killed(seen(*pair) for pair in killed).is_near(seen(host, time)) == pairs
