"""Commands whose hosts nobody reaches: what they say is no success, nor do they count what they have not seen."""

import json
from pathlib import Path

import pytest

from preflight.cli.main import main

# Nobody listens on port 1.
INVENTORY = """
[cluster]
name = "c"
product = "atlas-a1"
[ssh]
port = 1
[[hosts]]
name = "n[1-2]"
address = "127.0.0.[1-2]"
"""
REFUSED = "n1: ssh connection to 127.0.0.1:1 failed"


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.toml").write_text(INVENTORY, encoding="utf-8")


def test_a_plan_of_hosts_nobody_saw_is_no_success_in_two_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--out", "plan.json"]) == 3
    planned = capsys.readouterr().out
    assert REFUSED in planned
    assert planned.splitlines()[-3:] == [
        "no host was reached, so no changes are known",
        "plan saved in plan.json; no host was changed",
        "next: preflight explain HST101",
    ]
    assert main(["apply", "plan.json", "-y"]) == 3
    applied = capsys.readouterr().out
    assert REFUSED in applied
    anew = f"preflight plan --inventory {Path('hosts.toml').absolute()} --out plan.json"
    assert applied.splitlines()[-1] == f"next: {anew}"
    assert main(["apply", "plan.json", "-y", "-o", "json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["exit"] == 3
    assert REFUSED in document["notes"][0]


def test_configure_says_that_it_saw_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configure", "--dry-run"]) == 3
    assert "no host was reached, so no changes are known\n" in capsys.readouterr().out


def test_saved_facts_are_counted_by_the_hosts_that_gave_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["facts", "--out", "facts.json"]) == 3
    assert capsys.readouterr().err.splitlines()[0] == "facts of 0 of 2 hosts written to facts.json"
