"""The timeline of a run: from the progress it reports to the report and its page."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jsonschema  # type: ignore[import-untyped]

from preflight.app.timeline import Timeline
from preflight.model.report import Phase
from preflight.report.build import joined
from preflight.report.document import document
from preflight.report.html import MOST_PHASES, html
from preflight.transport.types import Progress
from tests.report_schema import schema
from tests.unit.report.test_forms import HOSTILE, Page, report

START = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


def told(*said: tuple[float, Progress]) -> tuple[Phase, ...]:
    """What is made of progress that was reported so many seconds after the start."""
    line = Timeline()
    for seconds, progress in said:
        line.take(progress, START + timedelta(seconds=seconds))
    return line.phases(START)


def facts(done: int, slowest: str | None = None, seconds: float = 0.0) -> Progress:
    return Progress(done, 2, 0, slowest, seconds, phase="facts")


def test_a_phase_is_from_its_first_word_to_its_last_and_has_who_was_waited_for_longest() -> None:
    (one,) = told((1.0, facts(0)), (2.0, facts(0, "node01", 1.0)), (9.0, facts(1, "node02", 8.0)),
                  (9.2, facts(1, "node01", 0.1)), (9.5, facts(2)))  # fmt: skip
    assert one == Phase("facts", 1.0, 8.5, 2, 0, "node02", 8.0)


def test_phases_pass_beside_each_other_and_the_same_one_may_come_again() -> None:
    round_ = Progress(1, 4, 0, "node01/3", 2.0, phase="probe round 2, 16 ranks, tests")
    ports = Progress(2, 2, 0, phase="ports")
    seen = told(
        (0, facts(0)), (1, facts(2)), (3, round_), (4, ports), (20, round_), (30, facts(0)), (31, facts(2)),
        (32, Progress(0, 1, 0)),
    )  # fmt: skip
    assert [(one.name, one.begin, one.seconds) for one in seen] == [
        ("facts", 0, 1), ("probe round 2, 16 ranks", 3, 17), ("ports", 4, 0), ("facts", 30, 1),
    ]  # fmt: skip


def test_of_several_inventories_it_counts_from_the_first_one_s_start() -> None:
    one = replace(report(), started="2026-11-21T10:00:00Z", phases=(Phase("facts", 1, 2),))
    other = replace(one, started="2026-11-21T10:01:00Z")
    assert [phase.begin for phase in joined(START, [one, other]).phases] == [1, 61]


def test_the_page_draws_it_without_a_script_and_the_document_has_it() -> None:
    phases = (Phase("facts", 0, 30, 2, 1, HOSTILE, 29.5), Phase("pings", 45, 45, 2))
    one = replace(report(), phases=phases)
    page = html(one, {}, fold=",".join, next_step="go")
    whole = one.seconds
    assert re.findall(r"margin-left: ([\d.]+)%; width: ([\d.]+)%", page) == [
        ("0.00", f"{3000 / whole:.2f}"), (f"{4500 / whole:.2f}", f"{4500 / whole:.2f}"),
    ]  # fmt: skip
    assert "facts, 1 of 2 failed" in page
    assert not Page(page).tags.keys() & {"script", "img"}
    made = json.loads(document(one, 0))
    jsonschema.validate(made, schema())
    assert made["phases"][1] == {"name": "pings", "begin": 45, "seconds": 45, "total": 2, "failed": 0, "longest": "",
                                 "waited": 0.0}  # fmt: skip


def test_a_run_without_phases_has_no_timeline_and_one_with_thousands_is_no_book() -> None:
    assert "Timeline" not in html(report(), {}, fold=",".join, next_step="go")
    many = replace(report(), phases=tuple(Phase(f"probe round {n}", n / 100, 0.01) for n in range(5000)))
    page = html(many, {}, fold=",".join, next_step="go")
    assert page.count('class="track"') == MOST_PHASES
    assert "4900 more" in page
