"""Runs as a command line names them: wherever RUN is taken, an id, a unique beginning of it, and `last`."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.app.saved.named_run import any_run, changing_run, checking_run
from preflight.cli.main import main, parser
from preflight.cli.parser import Parser
from preflight.history.runs import remember
from preflight.model.change import Area, Change, Kind, Plan, StepResult, StepState
from preflight.model.errors import UsageError
from preflight.model.outcome import Outcome
from preflight.provision.journal import RunJournal, require_directory
from tests.unit.past_runs import failed, look

LOOKS = ("20261121-101010-aaaa", "20261121-121212-bbbb", "20261122-090000-cccc")
CHANGES = ("20261121-101011-dddd", "20261121-130000-eeee", "20261122-080000-ffff")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs that looked and three that changed a host; the last of these took back the one before."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    require_directory()
    for run in LOOKS[:2]:
        remember(look(run, command="check"))
    remember(look(LOOKS[2], failed("node01"), command="check"))
    for run in CHANGES:
        _change_hosts(run, undoes=CHANGES[1] if run == CHANGES[2] else "")


def _change_hosts(run: str, *, undoes: str = "") -> None:
    change = Change("node01", Area.PORTS, Kind.FILE, "/etc/x", None, "x", "PRT101")
    journal = RunJournal(run)
    journal.start("apply", Path("hosts.toml"), Plan((change,)), undoes=undoes, asked=["node01"])
    journal.begin("node01", [change])
    journal.end([StepResult(change, StepState.DONE)])
    journal.finish(0)


def commands_that_take_a_run() -> list[list[str]]:
    """The words of every command with an argument that is called RUN in its help."""
    return [command.prog.split()[1:] for command in _commands(parser()) if _takes_run(command)]


def _commands(above: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    if isinstance(above, Parser):
        above.load()
    yield above
    for action in above._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _commands(command)


def _takes_run(command: argparse.ArgumentParser) -> bool:
    return any(action.metavar == "RUN" for action in command._actions)


def test_the_commands_that_take_a_run_are_those_that_are_known_to() -> None:
    assert sorted(map(" ".join, commands_that_take_a_run())) == [
        "baseline compare", "baseline save", "diff", "history", "rollback", "support-bundle",
    ]  # fmt: skip


@pytest.mark.parametrize("command", commands_that_take_a_run(), ids=" ".join)
def test_an_ambiguous_beginning_lists_the_runs(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "20261121-1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("preflight: 20261121-1 matches ")
    candidates = [line.strip() for line in lines[1:] if line.startswith("  ")]
    assert len(candidates) >= 2
    assert set(candidates) <= {*LOOKS, *CHANGES}


@pytest.mark.parametrize("command", commands_that_take_a_run(), ids=" ".join)
@pytest.mark.parametrize("word", ["r9", "", "../" * 9 + "etc/nope", "x" * 5000])
def test_a_run_that_is_not_known_names_the_command_that_lists_runs(
    word: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, word]) == 2
    error = capsys.readouterr().err
    assert error.startswith("preflight: this machine has no run ")
    assert "preflight history" in error


@pytest.mark.parametrize(
    ("word", "run"),
    [(LOOKS[0], LOOKS[0]), ("20261121-12", LOOKS[1]), ("20261122", LOOKS[2]), ("last", LOOKS[2]), ("passed", LOOKS[1])],
)
def test_a_run_that_looked_is_named(word: str, run: str) -> None:
    assert checking_run(word).run == run


@pytest.mark.parametrize(
    ("word", "run"), [(CHANGES[0], CHANGES[0]), ("20261121-13", CHANGES[1]), ("20261122", CHANGES[2])]
)
def test_a_run_that_changed_hosts_is_named(word: str, run: str) -> None:
    past = changing_run(word, None)
    assert past
    assert past.run == run


def test_last_is_no_rollback_and_nothing_that_is_taken_back() -> None:
    past = changing_run("last", None)
    assert past
    assert past.run == CHANGES[0]
    with pytest.raises(UsageError, match="has no run that changed hosts and was not rolled back"):
        changing_run("last", Path("other.toml"))


@pytest.mark.parametrize(
    ("word", "run"),
    [(LOOKS[0], LOOKS[0]), ("20261121-101011", CHANGES[0]), ("20261122-08", CHANGES[2]), ("last", LOOKS[2])],
)
def test_history_knows_runs_of_both_kinds(word: str, run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert any_run(word).run == run
    assert main(["history", word, "-o", "json"]) == 0
    assert run in capsys.readouterr().out


def test_a_run_of_the_other_kind_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollback", LOOKS[1]]) == 2
    assert f"run {LOOKS[1]} is of check, which changes nothing" in capsys.readouterr().err
    assert main(["diff", CHANGES[1]]) == 2
    assert f"run {CHANGES[1]} changed hosts. Choose a run of check or probe." in capsys.readouterr().err


def test_a_run_of_another_machine_may_be_taken_back_with_an_inventory() -> None:
    assert changing_run("20270101-000000-0000", Path("hosts.toml")) is None


def test_what_rollback_names_next_is_the_run_and_not_the_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollback", "last"]) == 2  # without a terminal
    assert f"preflight rollback {CHANGES[0]} -y" in capsys.readouterr().err


def test_diff_of_words_and_beginnings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "20261121-10", "last", "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["before"]["run"], document["after"]["run"]) == (LOOKS[0], LOOKS[2])
    assert document["before"]["verdict"] == Outcome.PASS
