"""The last line of a command that changes hosts: the step that is really next."""

import argparse
from pathlib import Path

import pytest

from preflight.cli.changes.next_command import after_configure, after_run
from preflight.model.change import Area, Change, Kind, StepResult, StepState
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from tests.unit.texts.trials import mistakes_in_words

PORTS = Change("node01", Area.PORTS, Kind.FILE, "/etc/sysctl.conf", "a\n", "b\n", "PRT101")
GOOD = Finding("PRT101", Outcome.PASS, "node01: reserved", host="node01")
WANTED = Finding("FWL101", Outcome.FAIL, "node01: closed", host="node01", change=PORTS)
BEYOND_US = Finding("NPU103", Outcome.FAIL, "node01: a link is down", host="node01")
CHECK = "preflight check --inventory hosts.toml"
AGAIN = "preflight configure -y"
DONE, FAILED, REVERTED, MOVED = StepState.DONE, StepState.FAILED, StepState.REVERTED, StepState.MOVED


def asked(command: str = "configure") -> argparse.Namespace:
    return argparse.Namespace(
        command=command, argv=[command, "-y"], inventory=Path("hosts.toml"), plan=Path("p.json"), limit=None, via=None
    )


def ended(*states: StepState) -> list[StepResult]:
    return [StepResult(PORTS, state) for state in states]


@pytest.mark.parametrize(
    ("after", "states", "says"),
    [
        (GOOD, [DONE, StepState.ALREADY], CHECK),
        (WANTED, [DONE, REVERTED], AGAIN),
        (WANTED, [DONE, MOVED, StepState.NOT_RUN], AGAIN),
        (WANTED, [DONE, FAILED, StepState.NOT_RUN], f"fix the failures above, then run: {AGAIN}"),
        (WANTED, [StepState.DID_NOT_STICK], f"fix the failures above, then run: {AGAIN}"),
        (WANTED, [], f"resolve the notes above, then run: {AGAIN}"),
        (BEYOND_US, [DONE], "preflight explain NPU103"),
    ],
)
def test_after_configure(after: Finding, states: list[StepState], says: str) -> None:
    assert after_configure(asked(), [GOOD, after], ended(*states)) == says
    assert mistakes_in_words(says) == []


@pytest.mark.parametrize(
    ("command", "states", "short", "says"),
    [
        ("apply", [DONE], False, CHECK),
        ("apply", [DONE], True, "resolve the notes above, then run: preflight apply -y"),
        ("apply", [FAILED], True, "fix the failures above, then run: preflight apply -y"),
        ("apply", [REVERTED], False, "preflight apply -y"),
        ("apply", [MOVED, StepState.NOT_RUN], False, "preflight plan --inventory hosts.toml --out p.json"),
        ("rollback", [DONE, MOVED], False, CHECK),
        ("rollback", [MOVED, REVERTED], False, "preflight rollback -y"),
    ],
)
def test_after_a_saved_plan_or_a_rollback(command: str, states: list[StepState], short: bool, says: str) -> None:
    assert after_run(asked(command), ended(*states), short=short) == says
    assert mistakes_in_words(says) == []


def test_what_is_next_keeps_to_the_hosts_asked_for_and_can_be_copied() -> None:
    args = asked("apply")
    args.inventory, args.plan, args.limit = Path("my hosts.toml"), Path("my plan.json"), "node[01-02]"
    where = "--inventory 'my hosts.toml' --limit 'node[01-02]'"
    assert after_configure(args, [GOOD], ended(DONE)) == f"preflight check {where}"
    assert after_run(args, ended(MOVED), short=False) == f"preflight plan {where} --out 'my plan.json'"
