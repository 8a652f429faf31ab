"""The lab matrix in short: faults of the lab and the culprits of the real probe. All rows: python -m benchmarks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.lab_matrix import judged, play, prepared
from benchmarks.lab_matrix_rows import ROWS, SHORT, Row
from preflight.lab.faults import FAULTS
from tests.lab.conftest import MakeLab


@pytest.fixture(scope="module")
def directory(make_lab: MakeLab) -> Iterator[Path]:  # noqa: ARG001  (for its look at root)
    with prepared() as place:
        yield place


@pytest.mark.lab
@pytest.mark.alone
@pytest.mark.parametrize("row", [row for row in ROWS if row.name in SHORT], ids=lambda row: row.name)
def test_the_probe_names_who_was_broken_and_nobody_else(directory: Path, row: Row) -> None:
    result = play(row, directory)
    assert result.wrong() == [], (result.named, result.cause)


def test_every_row_breaks_what_the_lab_can_break_and_has_a_name_of_its_own() -> None:
    assert {one.fault for row in ROWS for one in row.breaks} <= {fault.name for fault in FAULTS}
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert set(SHORT) <= {row.name for row in ROWS}


ROW = next(row for row in ROWS if row.name == "link down")
RIGHT = {"kind": "device", "members": ["node02/1"], "tests": [], "cause": "link down"}


def finding(host: str | None, device: int | None) -> dict[str, object]:
    said = {"summary": "link down", "found": None, "cause": None, "culprit": None}
    return {"outcome": "fail", "host": host, "device": device, **said}


@pytest.mark.parametrize(
    ("culprits", "findings", "left_out", "wrong"),
    [
        ([RIGHT], [], [], []),
        ([RIGHT], [finding("node02", 1), finding("node02", None)], [], []),
        ([], [], [], ["unexpected culprits", "no 'link down' in the cause"]),
        ([RIGHT, {**RIGHT, "members": ["node03/1"]}], [], [], ["unexpected culprits"]),
        ([{**RIGHT, "kind": "host", "members": ["node02"]}], [], [], ["unexpected culprits"]),
        ([RIGHT], [finding("node03", 1)], [], ["failures at node03/1"]),
        ([{**RIGHT, "cause": "slow"}], [], [], ["no 'link down' in the cause"]),
        ([RIGHT], [], [{"host": "node02", "why": "not reached"}], []),
        ([RIGHT], [], [{"host": "node03", "why": "busy"}], ["unexpected hosts left out"]),
    ],
)
def test_the_judge_is_content_with_the_right_answer_alone(
    culprits: list[object], findings: list[object], left_out: list[object], wrong: list[str]
) -> None:
    report = {"culprits": culprits, "findings": findings, "left_out": left_out}
    assert judged(ROW, report, 1.0).wrong() == wrong
