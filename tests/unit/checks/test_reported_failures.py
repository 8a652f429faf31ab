"""The failures that users reported: each is seen by a check, and a test shows it; or the table says why not."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.engine.registry import all_checks
from preflight.lab.faults import describe
from preflight.model.finding import Finding
from tests.failures import ASCEND, GPU, TABLES, Failure, failures, marked, marked_cases
from tests.unit.checks.test_checks import QUIET, look, read, settled
from tests.unit.healthy import scene

DOCS = Path(__file__).parents[3] / "docs"


def every() -> list[Failure]:
    return [failure for table in TABLES for failure in failures(table)]


def troubled(findings: list[Finding]) -> set[str]:
    return {finding.check for finding in findings if finding.outcome not in QUIET}


@cache
def usual_troubles() -> set[str]:
    """Return what the checks find in the healthy cluster that most cases start from."""
    return troubled(look(scene({})))


def test_all_are_there_and_each_is_seen_or_told_why_not() -> None:
    assert [failure.number for failure in failures(ASCEND)] == list(range(1, 61))
    assert [failure.number for failure in failures(GPU)] == [f"G{number}" for number in range(1, 62)]
    assert [failure.number for failure in every() if bool(failure.checks) == bool(failure.cannot)] == []


def test_the_named_checks_exist_and_each_is_shown_by_a_marked_test() -> None:
    tests = marked()
    for failure in every():
        assert set(failure.checks) <= set(all_checks()), failure.number
        shown = {test.check for test in tests.get(failure.number, ())}
        assert set(failure.checks) <= shown, failure.number


def test_marks_name_failures_whose_checks_they_test() -> None:
    checks = {failure.number: failure.checks for failure in every()}
    for number, tests in marked().items():
        assert number in checks
        assert [test.name for test in tests if test.check and test.check not in checks[number]] == [], number


def test_the_faults_of_the_lab_that_make_a_failure_are_those_which_its_checks_see() -> None:
    seen_by = {fault["name"]: set(fault["seen_by"]) for fault in describe()}
    for failure in every():
        assert [name for name in failure.faults if not seen_by[name] & set(failure.checks)] == [], failure.number


@pytest.mark.parametrize("path", marked_cases(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_failure_is_found_nothing_else_changes_and_the_mend_ends_it(path: Path) -> None:
    """`mended` of a case is what the facts are without the failure, where that is not what a healthy cluster has."""
    case, id_ = read(path), path.parent.name
    whole: dict[str, Any] = {key: case[key] for key in ("cluster", "hosts") if key in case}
    healthy = {**whole, **case.get("mended", {})}
    assert (troubled(look(scene(healthy))) if healthy else usual_troubles()) == set(), "before, and after the mend"
    broken = scene(case)
    findings = look(broken)
    assert troubled(findings) == {id_, *case.get("also", ())}
    if any(finding.change for finding in findings if finding.check == id_):
        assert id_ not in troubled(look(settled(broken, findings))), "after preflight's own mend"
