"""Saved documents of which any one part is something else: a sentence and 2, or a run; never a traceback."""

import json
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.cli.main import main
from preflight.facts.documents.facts_document import dump
from tests.unit.cli.test_check_from import INVENTORY
from tests.unit.facts.test_facts import sections
from tests.unit.healthy import scene

MISSING = object()
DEEP: Any = json.loads("[" * 900 + "]" * 900)
VALUES: tuple[Any, ...] = (
    MISSING, None, True, 0, -1, 10**30, 1e308, "", "x", "\x1b[2J", "9" * 5000, "256.1.1.1/99", "::1", "\n : = [",
    [], {}, [[]], ["x", None], {"a": {}}, {"value": None}, DEEP,
)  # fmt: skip
Place = tuple[str | int, ...]
pytestmark = pytest.mark.usefixtures("folder")
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value, from the whole down."""
    yield place
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*place, key))


def mutated(document: Any, place: Place, value: Any) -> Any:
    """A copy of the document with the value at the place, or without the place."""
    if not place:
        return None if value is MISSING else value
    copy = deepcopy(document)
    parent = copy
    for key in place[:-1]:
        parent = parent[key]
    if value is MISSING:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return copy


def capture() -> dict[str, Any]:
    document = sections()
    document["connects"] = {"value": [{"host": "node02", "address": "10.1.0.2", "port": 60000, "code": 111,
                                       "client": "10.1.0.1", "icmp": None}]}  # fmt: skip
    host = {"devices": [0], "sent": 1.0, "received": 2.0, "refused": None, "sections": document}
    gone = {"unreachable": {"trouble": "timeout", "summary": "node02 did not answer", "remedy": "look at it"}}
    unknown = [{"command": "hccn_tool -fec", "hosts": ["node02"], "answers": 8, "error": "x"}]
    return {"schema": "preflight.capture/1", "preflight": "0.1.0", "taken": "now", "anonymous": False,
            "inventory": INVENTORY, "not_understood": unknown, "hosts": {"node01": host, "node02": gone}}  # fmt: skip


FACTS: dict[str, Any] = json.loads(dump(scene({}).facts))
CAPTURE = capture()
REPORT: dict[str, Any] = {
    "schema": "preflight.report/1", "run": "r1", "command": "check", "started": "s", "finished": "f", "verdict": "fail",
    "exit": 1, "hosts": [{"name": "node01", "verdict": "fail", "checks": {"fail": 1}}], "checks": {"NPU107": []},
    "findings": [{"check": "NPU107", "outcome": "fail", "host": "node01", "device": 3, "summary": "s"}], "tests": [],
    "culprits": [], "left_out": [], "notes": [], "phases": [],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.toml").write_text(INVENTORY, encoding="utf-8")
    Path("facts.json").write_text(json.dumps(FACTS), encoding="utf-8")


def read_back(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Read the file with every command that does; each ends in an ordinary way."""
    for command in (["check", "--from", file, "--all"], ["facts", "--from", file], ["diff", "facts.json", file]):
        try:
            code = main(command)
        except SystemExit as error:
            code = int(error.code or 0)
        shown = capsys.readouterr()
        assert code in (0, 1, 2, 3), (command, shown.err)
        if code == 2:
            assert shown.err.startswith("preflight: "), command
            assert "Traceback" not in shown.err, command


def shallow(document: Any) -> list[Place]:
    """What is around the sections, and a section itself."""
    return [place for place in places(document) if len(place) <= 4]


@SETTINGS
@given(st.sampled_from(shallow(CAPTURE)), st.sampled_from(VALUES))
def test_a_capture_with_another_frame(capsys: pytest.CaptureFixture[str], place: Place, value: Any) -> None:
    Path("x.json").write_text(json.dumps(mutated(CAPTURE, place, value)), encoding="utf-8")
    read_back("x.json", capsys)


@SETTINGS
@given(st.sampled_from(list(places(CAPTURE))), st.sampled_from(VALUES))
def test_a_capture_with_another_part(capsys: pytest.CaptureFixture[str], place: Place, value: Any) -> None:
    Path("x.json").write_text(json.dumps(mutated(CAPTURE, place, value)), encoding="utf-8")
    read_back("x.json", capsys)


@SETTINGS
@given(st.sampled_from(list(places(FACTS))), st.sampled_from(VALUES))
def test_facts_with_another_part(capsys: pytest.CaptureFixture[str], place: Place, value: Any) -> None:
    Path("x.json").write_text(json.dumps(mutated(FACTS, place, value)), encoding="utf-8")
    read_back("x.json", capsys)


MEMBERS = {"bundle.json": {"schema": "preflight.bundle/1"}, "facts.json": FACTS, "report.json": REPORT}


@SETTINGS
@given(
    st.sampled_from([(name, place) for name, document in MEMBERS.items() for place in shallow(document)]),
    st.sampled_from(VALUES),
)
def test_a_support_bundle_with_another_part(
    capsys: pytest.CaptureFixture[str], at: tuple[str, Place], value: Any
) -> None:
    with zipfile.ZipFile("x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, document in MEMBERS.items():
            archive.writestr(name, json.dumps(mutated(document, at[1], value) if name == at[0] else document))
        archive.writestr("inventory.toml", INVENTORY)
    read_back("x.zip", capsys)


@SETTINGS
@given(st.sampled_from(list(MEMBERS)), st.floats(0, 1), st.integers(0x80, 0xFF))
def test_a_support_bundle_with_a_byte_that_is_no_utf_8(
    capsys: pytest.CaptureFixture[str], name: str, share: float, byte: int
) -> None:
    """The sections of facts are decoded one at a time, each with its own bytes."""
    with zipfile.ZipFile("x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for member, document in MEMBERS.items():
            text = json.dumps(document).encode()
            at = int(share * len(text))
            archive.writestr(member, text[:at] + bytes([byte]) + text[at + 1 :] if member == name else text)
        archive.writestr("inventory.toml", INVENTORY)
    read_back("x.zip", capsys)


def test_an_error_number_that_no_system_has_is_told_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for code in (10**30, -(10**30), 5000):
        place = ("hosts", "node01", "sections", "connects", "value", 0, "code")
        Path("x.json").write_text(json.dumps(mutated(CAPTURE, place, code)), encoding="utf-8")
        read_back("x.json", capsys)
