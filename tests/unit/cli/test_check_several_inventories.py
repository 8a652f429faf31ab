"""Hosts of several kinds, each in an inventory of its own: looked at by their own rules, in one report."""

import json
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from preflight.app import check
from preflight.app.check import together
from preflight.app.end import EndedRun
from preflight.app.run_options import CheckOptions
from preflight.cli.main import main
from preflight.model.cluster import Cluster
from preflight.model.errors import UsageError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.report.build import build

FINE = Finding("VER101", Outcome.PASS, "", host="nvidia-01")
INVENTORY = """
[cluster]
name = "{kind}"
product = "{kind}"
devices = 1
[ssh]
transport = "local"
[[hosts]]
name = "{host}"
address = "127.0.0.1"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    for kind in ("atlas-a2", "nvidia"):
        Path(f"{kind}.toml").write_text(INVENTORY.format(kind=kind, host=f"{kind}-01"))
    Path("same.toml").write_text(INVENTORY.format(kind="cpu", host="nvidia-01"))


def test_each_kind_is_judged_by_its_own_rules(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--only", "PRT101", "--only", "NPU101", "--basic", "-o", "json", "--all"]
    main(["check", "-i", "nvidia.toml", "--also", "atlas-a2.toml", *asked])
    report = json.loads(capsys.readouterr().out)
    assert [line["name"] for line in report["hosts"]] == ["nvidia-01", "atlas-a2-01"]
    found = {(finding["check"], finding["host"]): finding for finding in report["findings"]}
    assert found["NPU101", "nvidia-01"]["summary"].endswith("does not apply to nvidia")
    assert found["NPU101", "atlas-a2-01"]["outcome"] == "unknown"
    assert report["verdict"] in ("fail", "unknown")
    # HCCL's ports are wanted where HCCL is; each command names the inventory that it is for.
    gpu, npu = (found["PRT101", host] for host in ("nvidia-01", "atlas-a2-01"))
    assert ("60000" in npu["expected"], "60000" in gpu["expected"]) == (npu["outcome"] == "fail", False)
    assert ("--inventory atlas-a2.toml" in " ".join(npu["commands"])) == (npu["outcome"] == "fail")


def test_a_machine_without_gpus_is_told_so_where_its_inventory_wants_some(capsys: pytest.CaptureFixture[str]) -> None:
    if Path("/proc/driver/nvidia").exists() or shutil.which("nvidia-smi"):
        pytest.skip("not run: this machine has a GPU, or its driver")
    Path("cpu.toml").write_text(INVENTORY.format(kind="cpu", host="cpu-01").replace("devices = 1\n", ""))
    asked = ["--only", "GPU", "-o", "json", "--all"]
    assert main(["check", "-i", "nvidia.toml", "--also", "cpu.toml", *asked]) == 1
    report = json.loads(capsys.readouterr().out)
    found = [(finding["host"], finding["check"], finding["outcome"]) for finding in report["findings"]]
    (failed,) = [finding for finding in report["findings"] if finding["outcome"] == "fail"]
    assert failed["summary"] == "nvidia-01: no NVIDIA GPU is on the PCI bus, and no NVIDIA driver is loaded"
    assert {outcome for host, check, outcome in found if (host, check) != ("nvidia-01", "GPU101")} == {"skip"}
    without = {finding["summary"] for finding in report["findings"] if finding["host"] == "cpu-01"}
    assert without == {"does not apply to cpu"}
    assert [(host["name"], host["verdict"]) for host in report["hosts"]] == [("nvidia-01", "fail"), ("cpu-01", "skip")]


def test_each_is_remembered_as_a_run_of_its_own_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "-i", "nvidia.toml", "--also", "atlas-a2.toml", "--only", "VER101", "--basic"])
    capsys.readouterr()
    assert main(["history", "-o", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert sorted(run["cluster"] for run in runs) == ["atlas-a2", "nvidia"]


def test_the_next_command_is_of_the_inventory_that_needs_it_most() -> None:
    def ended(code: int, then: str, *findings: Finding) -> EndedRun:
        return EndedRun(build("check", datetime.now(UTC), ["node01"], findings), code, then, ())

    passed, unknown = (Finding("VER101", outcome, "", host="node01") for outcome in (Outcome.PASS, Outcome.UNKNOWN))
    proven, to_prove = ended(0, "start the job", passed), ended(0, "preflight probe", passed)
    blind, unpublished = ended(3, "preflight explain VER101", unknown), ended(1, "publish again", passed)
    for several, then in (
        ((proven, to_prove), (0, "preflight probe")),
        ((proven, blind, to_prove), (3, "preflight explain VER101")),
        ((blind, unpublished), (1, "publish again")),
    ):
        joined = together(datetime.now(UTC), several)
        assert (joined.exit_code, joined.next_step) == then


def test_what_was_found_stands_where_the_other_inventory_cannot_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(_: CheckOptions, cluster: Cluster) -> EndedRun:
        if cluster.name == "nvidia":
            return EndedRun(build("check", datetime.now(UTC), ["nvidia-01"], [FINE]), 0, "start the job", ())
        raise UsageError("no way to atlas-a2-01")

    monkeypatch.setattr(check, "check_hosts", look)
    assert main(["check", "-i", "nvidia.toml", "--also", "atlas-a2.toml", "-o", "json", "--all"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report["left_out"] == [{"host": "atlas-a2-01", "why": "no way to atlas-a2-01"}]
    assert [finding["host"] for finding in report["findings"]] == ["nvidia-01"]
    assert main(["check", "-i", "atlas-a2.toml", "--also", "nvidia.toml"]) == 2


def test_all_inventories_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[float] = []

    def look(options: CheckOptions, cluster: Cluster) -> EndedRun:
        budgets.append(options.budget or 0.0)
        time.sleep(0.05)
        return EndedRun(build("check", datetime.now(UTC), [cluster.hosts[0].name], [FINE]), 0, "start the job", ())

    monkeypatch.setattr(check, "check_hosts", look)
    main(["check", "-i", "nvidia.toml", "--also", "atlas-a2.toml", "--budget", "60s"])
    first, second = budgets
    assert first <= 60
    assert second <= first - 0.05


@pytest.mark.parametrize(
    ("also", "says"),
    [
        (["nvidia.toml"], "--also names an inventory twice"),
        (["same.toml"], "nvidia-01 is in nvidia.toml and in same.toml"),
        (["atlas-a2.toml", "-K"], "-K is for hosts with sudo = true"),
        (["none.toml"], "none.toml: no such file. Write one with preflight init"),
        (["none.toml"], "or choose another with --also"),
        (["atlas-a2.toml", "--limit", "nvidia-01"], "--limit and --also cannot be combined"),
        (["atlas-a2.toml", "--from", "facts.json"], "--from cannot be combined with --also"),
    ],
)
def test_inventories_that_do_not_go_together_are_refused(
    also: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "-i", "nvidia.toml", "--also", *also]) == 2
    assert says in capsys.readouterr().err
