"""`-o jsonl`: findings and progress as they come, each once, and the summary as the last line."""

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.json_lines import JsonLines
from preflight.cli.main import main
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.transport.types import Progress

INVENTORY = """
[cluster]
name = "c"
product = "cpu"
[ssh]
transport = "local"
[[hosts]]
name = "alpha"
"""
FAILED = Finding("HST103", Outcome.FAIL, "a: x", host="a")
PASSED = Finding("HST104", Outcome.PASS, "y", host="a")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def check(place: Path, *words: str) -> int:
    inventory = place / "hosts.toml"
    inventory.write_text(INVENTORY)
    return main(["check", "-i", str(inventory), "--basic", "--only", "HST", "-o", "jsonl", *words])


def test_a_run_begins_with_the_schema_and_ends_with_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = check(tmp_path, "--save", str(tmp_path / "report.json"))
    first, *between, last = lines(capsys)
    assert first == {"kind": "start", "schema": "preflight.stream/1", "command": "check"}
    assert {line["kind"] for line in between} <= {"progress", "finding"}
    assert [line["progress"]["done"] for line in between if line["kind"] == "progress"] == [0, 1]
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert [line["finding"] for line in between if line["kind"] == "finding"] == report["findings"]
    assert last["kind"] == "summary"
    summary = last["summary"]
    assert [key for key in summary if key != "next" and summary[key] != report[key]] == []
    assert summary["exit"] == code


def test_all_adds_passes_and_skips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(tmp_path, "--all")
    outcomes = {line["finding"]["outcome"] for line in lines(capsys) if line["kind"] == "finding"}
    assert {"pass", "skip"} <= outcomes


def test_a_finding_is_written_once_and_a_pass_only_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    stream = JsonLines("check")
    stream.show_findings([FAILED, PASSED])
    stream.show_findings([FAILED, PASSED])
    assert [line["finding"]["check"] for line in lines(capsys)[1:]] == ["HST103"]
    stream.show_findings([FAILED, PASSED], everything=True)
    assert [line["finding"]["check"] for line in lines(capsys)] == ["HST104"]


def test_progress_is_written_only_if_more_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    stream = JsonLines("check")
    for done, seconds in ((0, 0.0), (0, 0.5), (1, 1.0)):
        stream.show_progress(Progress(done, 2, 0, "a", seconds, "", "facts"))
    stream.show_progress(Progress(1, 2, 0))
    assert [line["progress"]["done"] for line in lines(capsys)[1:]] == [0, 1]


def test_jsonl_is_not_for_files(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "-o", "jsonl=x"])
    assert "jsonl is for stdout only" in capsys.readouterr().err


def test_two_phases_at_once_repeat_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    stream = JsonLines("check")
    for phase in ("pings", "agents", "pings", "agents"):
        stream.show_progress(Progress(1, 4, 0, phase=phase))
    assert [line["progress"]["phase"] for line in lines(capsys)[1:]] == ["pings", "agents"]
