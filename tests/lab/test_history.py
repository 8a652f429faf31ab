"""What runs over real hosts leave in the history of the machine that started them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Nothing is configured, so no port is reserved."""
    return make_lab(hosts=2, devices=1)


def test_a_fault_that_stays_is_named_as_one_and_only_looks_at_hosts_are_remembered(
    lab: LabHandle, tmp_path: Path
) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "state")}

    def check(*arguments: str | Path) -> dict[str, Any]:
        done = preflight("check", "--inventory", lab.inventory, "--basic", "--only", "PRT101", "-o", "json", *arguments,
                         check=False, env=home)  # fmt: skip
        assert done.returncode == 1, done.stdout + done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    reports = [check() for _ in range(3)]
    again = "node[01-02] failed PRT101 in 2 of the 2 runs before this one, too: preflight history --host node01"
    assert [again in report["notes"] for report in reports] == [False, False, True]

    preflight("facts", "--inventory", lab.inventory, "--basic", "--out", tmp_path / "facts.json")
    preflight("check", "--inventory", lab.inventory, "--from", tmp_path / "facts.json", check=False, env=home)
    listed = json.loads(preflight("history", "--host", "node01", "-o", "json", env=home).stdout)["runs"]
    assert [run["run"] for run in listed] == [report["run"] for report in reversed(reports)]
    assert {(run["command"], run["verdict"], run["exit"]) for run in listed} == {("check", "fail", 1)}
    shown = preflight("history", reports[0]["run"], env=home).stdout.splitlines()
    assert shown[0].startswith("FAIL    PRT101")
    assert shown[-1] == f"next: preflight configure-ports --inventory {lab.inventory}"
