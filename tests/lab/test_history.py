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
    again = "node[01-02] failed PRT101 in 2 of the previous 2 runs. See: preflight history --host node01"
    assert [again in report["notes"] for report in reports] == [False, False, True]

    preflight("facts", "--inventory", lab.inventory, "--basic", "--out", tmp_path / "facts.json")
    preflight("check", "--inventory", lab.inventory, "--from", tmp_path / "facts.json", check=False, env=home)
    listed = json.loads(preflight("history", "--host", "node01", "-o", "json", env=home).stdout)["runs"]
    assert [run["run"] for run in listed] == [report["run"] for report in reversed(reports)]
    assert {(run["command"], run["verdict"], run["exit"]) for run in listed} == {("check", "fail", 1)}
    shown = preflight("history", reports[0]["run"], env=home).stdout.splitlines()
    assert shown[0].startswith("FAIL    PRT101")
    assert shown[-1] == f"next: preflight configure-ports --inventory {lab.inventory}"


def test_two_looks_at_hosts_that_nobody_changed_are_the_same_and_a_change_is_named(
    lab: LabHandle, tmp_path: Path
) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "state")}
    asked = ("check", "--inventory", lab.inventory, "--no-probe")
    preflight("configure", "--inventory", lab.inventory, "-y", env=home)
    for _ in range(2):
        preflight(*asked, env=home)
    same = preflight("diff", env=home, cwd=tmp_path)
    assert same.stdout.splitlines()[-2] == "SAME: no differences"

    lab.lab("break", "link-down", "--host", "node02", "--device", "0")
    assert preflight(*asked, check=False, env=home).returncode == 1
    done = preflight("diff", "--inventory", lab.inventory, check=False, env=home)
    assert done.returncode == 1
    assert "  node02 device 0: hccn.devices.link UP -> DOWN" in done.stdout.splitlines()
    assert "new fail NPU107 node02: device 0: link is DOWN" in done.stdout
    assert done.stdout.splitlines()[-1] == "next: preflight explain NPU107"
    lab.lab("fix")

    case = tmp_path / "case.zip"
    bundle = preflight("support-bundle", "--inventory", lab.inventory, "--fetch", "--out", case, check=False, env=home)
    assert bundle.returncode == 3  # a lab host may not read the machine's kernel log
    missing = [line for line in bundle.stdout.splitlines() if line.startswith("not included: ")]
    assert len(missing) == 2
    assert all("the kernel's log: dmesg" in line for line in missing)
    again = preflight("check", "--from", case, "-o", "json", check=False, env=home, cwd=tmp_path)
    assert (again.returncode, "NPU107" in again.stdout) == (1, True)
    assert preflight("diff", case, "last", env=home, cwd=tmp_path).returncode == 0
