"""Failures that are shown before all hosts are collected."""

import pytest

from preflight.app import early_findings
from preflight.app.early_findings import EarlyFindings
from preflight.facts.types import HostFacts, Missing
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

NO = Missing("not collected")
FACTS = HostFacts(NO, NO, NO, NO, NO, NO, NO, NO, NO)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(early_findings, "time", made)
    return made


def failing(*checks: str) -> tuple[EarlyFindings, list[str]]:
    lines: list[str] = []

    def judge(host: str, _: HostFacts) -> list[Finding]:
        passed = Finding("HST102", Outcome.PASS, "clock", host=host)
        return [passed, *(Finding(check, Outcome.FAIL, f"{host}: bad", host=host) for check in checks)]

    return EarlyFindings(judge, lines.append), lines


def test_the_first_failure_of_each_check_is_shown_once(clock: Clock) -> None:
    early, lines = failing("PRT101", "HST103")
    clock.now = 2.5
    early.take("node07", FACTS)
    clock.now = 3.0
    early.take("node08", FACTS)
    assert lines == ["first FAIL of PRT101: node07: bad", "first FAIL of HST103: node07: bad"]


def test_nothing_is_shown_before_a_small_cluster_is_done(clock: Clock) -> None:
    early, lines = failing("PRT101")
    clock.now = 1.9
    early.take("node07", FACTS)
    assert lines == []


def test_few_checks_are_shown(clock: Clock) -> None:
    early, lines = failing(*(f"HST{number}" for number in range(101, 121)))
    clock.now = 2.5
    early.take("node07", FACTS)
    assert len(lines) == early_findings.MOST


def test_only_a_sample_of_the_hosts_is_looked_at(clock: Clock) -> None:
    hosts: list[str] = []

    def judge(host: str, _: HostFacts) -> list[Finding]:
        hosts.append(host)
        return []

    early = EarlyFindings(judge, print)
    for number, clock.now in enumerate((2.5, 2.51, 2.59, 2.61)):
        early.take(f"node0{number}", FACTS)
    assert hosts == ["node00", "node03"]
