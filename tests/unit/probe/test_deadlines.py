"""Deadlines of a probe whose time is limited, and what is said of a hang that may be slowness."""

from collections.abc import Sequence

import pytest

from preflight.checks.engine.registry import All, all_checks
from preflight.model.finding import Finding
from preflight.model.measure import (
    End,
    Located,
    Member,
    Observation,
    RankView,
    Scope,
    TestOutcome,
    TestResult,
    TimeLimit,
)
from preflight.model.outcome import Outcome
from preflight.probe.timeouts.budget import Ahead, enough, hanging_rounds, least
from tests.unit.probe.test_budget import cluster

ALL_LATER = (Scope.ALL, Scope.PAIR)


def ahead(left: float, *, healthy: float = 15.0, hangs: int = 3, free: float = 10.0, at_least: float = 15.0) -> Ahead:
    return Ahead(left, healthy, hangs, free, at_least)


@pytest.mark.parametrize(
    ("before", "usual", "step"),
    [
        (ahead(1000), 180, 180),  # as much as without a budget
        (ahead(300), 180, 85),  # three rounds of 85 s and 10 s more, and 15 s
        (ahead(300, hangs=1), 180, 180),
        (ahead(47, hangs=1, healthy=20), 180, 17),  # a device alone, 60 s in all
        (ahead(45), 180, 15),  # no less, though it does not fit
        (ahead(45, at_least=97), 180, 97),  # of 1,024 ranks
        (ahead(0), 180, 15),
        (ahead(0, at_least=300), 180, 180),  # of tests that take longer than a step usually may
        (ahead(1000), 6, 6),  # the inventory's
        (ahead(45, free=0, at_least=10), 60, 10),
    ],
)
def test_a_step_has_what_the_rounds_that_name_a_device_leave(before: Ahead, usual: float, step: float) -> None:
    assert before.step(usual) == step


@pytest.mark.parametrize("left", [90.0, 150.0, 300.0])
def test_the_rounds_that_name_a_device_fit_into_the_time(left: float) -> None:
    before = ahead(left)
    assert before.needed(before.step(180)) <= left


@pytest.mark.parametrize(
    ("scope", "later", "rounds"),
    [
        (Scope.DEVICE, ALL_LATER, 1),
        (Scope.HOST, ALL_LATER, 2),
        (Scope.HOST, (), 1),
        (Scope.PAIR, (Scope.ALL,), 1),
        (Scope.ALL, (), 1),
    ],
)
def test_how_many_rounds_last_until_their_deadline(scope: Scope, later: Sequence[Scope], rounds: int) -> None:
    assert hanging_rounds(scope, later) == rounds


def test_no_step_is_so_short_that_a_slow_start_passes_for_a_hang() -> None:
    assert least("hccl", Scope.DEVICE, 1, 0.0) == 15
    assert least("hccl", Scope.ALL, 1024, 0.0) == pytest.approx(96.9, abs=0.1)
    assert least("hccl", Scope.PAIR, 2, 0.0) == pytest.approx(10.2, abs=0.1)
    assert least("gloo", Scope.ALL, 2, 20.0) == pytest.approx(70.1, abs=0.1)  # large tests


def test_a_budget_that_would_do_is_larger_and_gives_twice_the_time() -> None:
    short = ahead(45)
    budget = enough(15.0, short, 180)
    assert budget == 150
    assert ahead(budget - 15).step(180) >= 2 * short.step(180)
    assert enough(15.0, ahead(2000), 180) == 600  # the usual time, and no more


LIMIT = TimeLimit(60, 150, shortened=True)


def seen(id_: str, scope: Scope, *places: str, hangs: str = "") -> Observation:
    """`hangs`: the stage after which all ranks stopped; else they passed."""
    members = tuple(Member(place[:-2], int(place[-1]), rank) for rank, place in enumerate(places))
    stage, end = hangs or "closed", End.OVERDUE if hangs else End.CLOSED
    outcome = TestOutcome.HANG if hangs else TestOutcome.PASS
    test = TestResult(id_, "init", "", 0, None, members, outcome, stage, scope=scope)
    return Observation(test, tuple(RankView(member, stage, end=end) for member in members))


def arrived(
    observations: Sequence[Observation], located: Sequence[Located] = (), limit: TimeLimit | None = LIMIT
) -> list[Finding]:
    check, four = all_checks()["PRB101"], cluster(4, 1)
    findings = check.function(All(check, four, four.hosts), tuple(observations), tuple(located), None, limit)
    return list(findings)


FOUR = ("node01/0", "node02/0", "node03/0", "node04/0")
ALL_STOPPED = seen("r2-0", Scope.ALL, *FOUR, hangs="peers")
GOOD_PAIRS = [seen("r3-0", Scope.PAIR, *FOUR[:2]), seen("r3-1", Scope.PAIR, *FOUR[2:])]


def test_a_hang_of_all_in_a_short_time_is_unknown_with_the_budget_that_would_do() -> None:
    (finding,) = arrived([ALL_STOPPED, *GOOD_PAIRS])
    assert (finding.outcome, finding.host, finding.culprit) == (Outcome.UNKNOWN, None, None)
    assert "the budget of 60 s is too short to tell a hang from slow progress" in finding.summary
    assert finding.summary.endswith("A budget of 150 s would be enough")
    assert finding.commands == ("preflight probe --budget 150s",)


@pytest.mark.parametrize("limit", [None, TimeLimit(600, 600, shortened=False)])
def test_a_hang_of_all_in_the_usual_time_is_a_failure(limit: TimeLimit | None) -> None:
    assert {finding.outcome for finding in arrived([ALL_STOPPED, *GOOD_PAIRS], limit=limit)} == {Outcome.FAIL}


def test_a_system_that_hangs_in_a_short_time_is_unknown_too() -> None:
    pairs = [seen(f"r3-{n}", Scope.PAIR, *FOUR[2 * n : 2 * n + 2], hangs="peers") for n in (0, 1)]
    system = Located("system", FOUR, ("r3-0", "r3-1"), TestOutcome.HANG)
    assert [finding.outcome for finding in arrived([ALL_STOPPED, *pairs], [system])] == [Outcome.UNKNOWN]


def alone(*hung: str) -> list[Observation]:
    return [
        seen(f"r1-{n}", Scope.DEVICE, place, hangs="backend" if place in hung else "") for n, place in enumerate(FOUR)
    ]


def test_a_device_that_hangs_alone_is_named_where_the_others_pass() -> None:
    (finding,) = arrived(alone("node02/0"))
    assert (finding.outcome, finding.host) == (Outcome.FAIL, "node02")


def test_devices_that_are_all_late_alone_may_be_slow() -> None:
    (finding,) = arrived(alone(*FOUR))
    assert (finding.outcome, finding.host) == (Outcome.UNKNOWN, None)


def test_two_partners_that_pass_elsewhere_name_a_device_in_a_short_time() -> None:
    pairs = [
        seen("r3-0", Scope.PAIR, "node01/0", "node02/0", hangs="peers"),
        seen("r3-1", Scope.PAIR, "node03/0", "node04/0"),
        seen("r4-0", Scope.PAIR, "node03/0", "node02/0", hangs="peers"),
        seen("r4-1", Scope.PAIR, "node01/0", "node04/0"),
    ]
    device = Located("host", ("node02",), ("r3-0", "r4-0", "r4-1", "r3-1"), TestOutcome.HANG)
    (finding,) = arrived([ALL_STOPPED, *pairs], [device])
    assert (finding.outcome, finding.host) == (Outcome.FAIL, "node02")


def test_tests_that_were_not_run_are_told_with_the_budget_that_would_do() -> None:
    one = seen("r2-0", Scope.ALL, *FOUR)
    cut = Observation(
        TestResult("r2-1", "all_reduce", "int32", 8, None, one.test.members, TestOutcome.NOT_RUN, "none"), ()
    )
    (finding,) = arrived([one, cut])
    assert finding.summary == "1 test did not run within the budget of 60 s. A budget of 150 s would be enough"
