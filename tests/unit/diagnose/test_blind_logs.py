"""Logs by an author who did not know the code (tests/cases/diagnose/blind): each is read as its index says."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from preflight.diagnose import told
from preflight.diagnose.gather import Gathered
from preflight.diagnose.judge import diagnosis
from preflight.diagnose.reading import read, sources
from preflight.diagnose.types import Diagnosis, Role

FOLDER = Path(__file__).parents[2] / "cases" / "diagnose" / "blind"
CASES: list[dict[str, Any]] = tomllib.loads((FOLDER / "INDEX.toml").read_text(encoding="utf-8"))["case"]


def reading(path: Path) -> Diagnosis:
    logs = Gathered()
    for source in sources([path]):
        assert read(source, logs) is None
    return diagnosis(logs)


def verdict(found: Diagnosis) -> str:
    if found.cause:
        return "link" if found.cause.sign.role is Role.LINK else "own"
    if not found.echoes:
        return "none"
    if found.unexplained:
        return "unknown-cause"
    return "cancelled" if found.echoes[0].sign.role is Role.ENDED else "wait"


@pytest.mark.parametrize("case", CASES, ids=[f"{case['id']}-{case['kind']}" for case in CASES])
def test_a_log_is_read_as_an_engineer_would(case: dict[str, Any]) -> None:
    found = reading(FOLDER / case["path"])
    assert verdict(found) in (case["verdict"], *case.get("alt_verdict", []))
    if verdict(found) == "none":
        return
    text = " ".join(line for _, _, line in told.lines(found)).lower()
    assert any(word.lower() in text for word in case["any"])
    lead = found.cause or found.echoes[0]
    assert not [phrase for phrase in case["must_not"] if phrase.lower() in lead.sign.cause.lower()]
    culprit = told.writer_name(found.cause.first.who) if found.cause else ""
    assert culprit not in case.get("not_culprit", [])


def test_every_log_of_the_index_is_there_and_no_other() -> None:
    assert {path.name for path in FOLDER.iterdir()} - {"INDEX.toml"} == {case["path"] for case in CASES}
