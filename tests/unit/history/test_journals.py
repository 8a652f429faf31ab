"""What `preflight history` makes of the journals on this machine: counts that add up, and what can be taken back."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from preflight.cli.history import runs as history
from preflight.cli.main import main
from preflight.model.change import Area, Change, Kind, Plan, StepResult, StepState
from preflight.provision.journal import PastRun, RunJournal, directory, past_run, require_directory

INVENTORY = Path("hosts.toml")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    require_directory()


def changes(host: str, number: int = 2) -> list[Change]:
    return [Change(host, Area.PORTS, Kind.FILE, f"/etc/{n}", None, "x", "PRT101") for n in range(number)]


def written(
    run: str, ended: dict[str, Sequence[StepState]], *, begun: str = "", more: str = "", exit_code: int | None = 0,
    undoes: str = "", maybe: bool = False,
) -> PastRun:  # fmt: skip
    """A journal of two changes a host. `ended`: how those of a host went; `begun`: one that was not heard of again;
    `more`: one that was not begun."""
    hosts = [*ended, *begun.split(), *more.split()]
    journal = RunJournal(run)
    plan = Plan(tuple(change for host in hosts for change in changes(host)))
    journal.start("apply", INVENTORY, plan, undoes=undoes, asked=hosts)
    for host in (*ended, *begun.split()):
        journal.begin(host, changes(host))
    for host, states in ended.items():
        pairs = zip(changes(host), states, strict=True)
        journal.end([StepResult(c, s, maybe=maybe and s is StepState.FAILED) for c, s in pairs])
    if exit_code is not None:
        journal.finish(exit_code)
    past = past_run(run)
    assert past
    return past


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert history.run(argparse.Namespace(run_id=None, number=20, host="", output="console")) == 0
    return capsys.readouterr().out.splitlines()


DONE, ALREADY, FAILED, NOT_RUN = StepState.DONE, StepState.ALREADY, StepState.FAILED, StepState.NOT_RUN


def test_a_run_that_found_everything_so_changed_nothing_and_is_not_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    written("r1", {"node01": [DONE, DONE]})
    written("r2", {"node01": [ALREADY, ALREADY]})
    title, second, first, _, last = listed(capsys)
    assert title.startswith("run")
    assert second.endswith("nothing changed (2 already in place)")
    assert first.endswith("2 of 2 changes")
    assert last == "next: preflight history r2", "who follows next: loses nothing of what was provisioned"
    assert history.run(argparse.Namespace(run_id="r2", number=20, host="", output="console")) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: preflight history"
    assert history.run(argparse.Namespace(run_id="r1", number=20, host="", output="console")) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "to undo: preflight rollback r1", "next: preflight history"
    ]  # fmt: skip


def test_a_failed_canary_leaves_counts_that_add_up() -> None:
    past = written("r1", {"node01": [FAILED, NOT_RUN]}, more="node02 node03", exit_code=1)
    assert history.ending(past) == "nothing changed, 1 failed, 1 not tried, 4 on hosts that were not started"
    assert not past.touched


def test_what_a_killed_run_did_is_not_known_here(capsys: pytest.CaptureFixture[str]) -> None:
    past = written("r1", {"node01": [DONE, ALREADY]}, begun="node02", more="node03", exit_code=None)
    assert history.ending(past) == (
        "at least 1 of 6 changes, 1 already in place, 2 unknown (see the journals on the hosts), "
        "2 on hosts that were not started, "
        "interrupted or still running"
    )
    early = written("r2", {}, begun="node01", exit_code=None)
    assert history.ending(early).startswith("at least 0 of 2 changes, 2 unknown")
    assert history.run(argparse.Namespace(run_id="r2", number=20, host="", output="console")) == 0
    said = capsys.readouterr().out
    assert "to undo: preflight rollback r2" in said, "the hosts may have been changed"


def test_a_host_that_was_lost_may_have_been_changed() -> None:
    past = written("r1", {"node01": [FAILED, FAILED]}, maybe=True, exit_code=1)
    assert history.ending(past) == "at least 0 of 2 changes, 2 failed, some of which may have changed something"


def test_a_host_that_was_heard_twice_counts_once() -> None:
    journal = RunJournal("r1")
    journal.start("apply", INVENTORY, Plan(tuple(changes("node01"))))
    journal.begin("node01", changes("node01"))
    journal.end([StepResult(change, FAILED, maybe=True) for change in changes("node01")])  # given up
    journal.end([StepResult(change, DONE) for change in changes("node01")])  # and heard all the same
    past = past_run("r1")
    assert past
    assert (past.states, past.maybe) == ({DONE: 2}, 0)


def test_what_was_taken_back_is_marked_and_what_was_never_done_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    written("r1", {"node01": [DONE, DONE]})
    written("r2", {"node01": [FAILED, NOT_RUN]}, exit_code=1)
    written("r3", {"node01": [DONE, DONE]}, undoes="r1")
    written("r4", {"node01": [ALREADY, ALREADY]}, undoes="r2")
    text = listed(capsys)
    assert [line[:2] for line in text if line.endswith("; rolled back")] == ["r1"]
    assert text[-1] == "next: preflight history r4"


def test_a_rollback_that_found_nothing_says_so() -> None:
    journal = RunJournal("r2")
    journal.start("rollback", INVENTORY, Plan(), undoes="r1", asked=["node01"])
    journal.finish(0)
    past = past_run("r2")
    assert past
    assert history.ending(past) == "nothing to change"


SOUND = {"event": "start", "time": "t", "run": "r2", "command": "apply", "inventory": "/x", "owner": "a", "undoes": "",
         "asked": [], "changes": []}  # fmt: skip
DEVICE = {"host": "node01", "area": "device-ips", "kind": "device-address", "target": "zero", "before": None,
          "after": "10.0.0.1/24", "why": "NPU101"}  # fmt: skip
BAD_FIRST_LINES = {
    "empty": b"",
    "no JSON": b"\x00\xff{",
    "no object": b"[1]",
    "a number": b"7",
    "deep": b"[" * 100_000,
    "a field missing": json.dumps({"event": "start", "run": "r2"}).encode(),
    "a field of another type": json.dumps({**SOUND, "changes": 7}).encode(),
    "another run": json.dumps({**SOUND, "run": "r9"}).encode(),
    "an escape": json.dumps({**SOUND, "owner": "\x1b[2J"}).encode(),
    "a device in words": json.dumps({**SOUND, "changes": [DEVICE]}).encode(),
}


@pytest.mark.parametrize("name", BAD_FIRST_LINES)
def test_a_file_that_is_no_journal_is_passed_over(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    written("r1", {"node01": [DONE, DONE]})
    path = directory() / "r2.jsonl"
    path.write_bytes(BAD_FIRST_LINES[name] + b"\n")
    assert [line.split()[0] for line in listed(capsys)[1:-2]] == ["r1"]
    assert past_run("r2") is None
    assert main(["rollback", "r2"]) == 2
    assert "this machine has no run r2" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        b"7",
        b"[]",
        b'{"event": "end"}',
        b'{"event": "end", "host": [], "step": {}, "state": "done"}',
        b"\xff",
        b'{"event": "end", "host": "node01", "step": 0, "state": "odd"}',
        b'{"event": "begin", "host": "\\u001b[2J"}',
        b'{"event": "finish", "exit": "x"}',
        b'{"event": 1}',
        b"{}",
    ],
)
def test_a_damaged_line_of_a_journal_is_passed_over(line: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    written("r1", {"node01": [DONE, DONE]})
    with (directory() / "r1.jsonl").open("ab") as file:
        file.write(line + b"\n")
    assert listed(capsys)[1].endswith("2 of 2 changes")
    assert main(["history", "r1"]) == 0
    assert "\x1b" not in capsys.readouterr().out
