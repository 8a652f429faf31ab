"""A lab of GPU hosts: healthy they pass, and each fault is found by the check that is meant to see it, at its place."""

import json
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

FAULTS: dict[str, set[tuple[str, int | None]]] = {
    "gpu-lost": {("GPU101", None), ("GPU102", None)},
    "gpu-ecc": {("GPU103", 3)},
    "gpu-row-remap": {("GPU104", 3)},
    "gpu-nvlink": {("GPU115", 3)},
    "nvidia-smi-hangs": {("GPU101", None), ("GPU107", None)},
}


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    return make_lab(hosts=2, devices=8, product="nvidia", firewall="none")


def found(lab: LabHandle) -> list[dict[str, Any]]:
    done = preflight("check", "-i", lab.inventory, "--only", "GPU", "--no-probe", "-o", "json", "--all", check=False)
    assert done.returncode in (0, 1), done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings


def test_healthy_hosts_pass_and_the_stand_ins_are_called_so(lab: LabHandle) -> None:
    findings = found(lab)
    assert {finding["outcome"] for finding in findings} == {"pass", "skip"}
    passed = {finding["check"] for finding in findings if finding["outcome"] == "pass"}
    assert {"GPU101", "GPU102", "GPU107", "GPU112", "GPU114", "GPU115", "GPU117", "GPU119"} <= passed
    assert "stand-ins" in lab.lab("status").stdout
    assert "STAND-IN" in lab.ssh("node01", "nvidia-smi -L").stderr


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_gpu_is_found_at_its_place_and_gone_when_fixed(lab: LabHandle, fault: str) -> None:
    device = () if fault == "nvidia-smi-hangs" else ("--device", "3")
    lab.lab("break", fault, "--host", "node02", *device)
    failed = {(f["check"], f["host"], f["device"]) for f in found(lab) if f["outcome"] not in ("pass", "skip")}
    lab.lab("fix", fault)
    assert failed == {(check, "node02", at) for check, at in FAULTS[fault]}
    assert {finding["outcome"] for finding in found(lab)} == {"pass", "skip"}


def test_a_fault_of_npus_is_refused(lab: LabHandle) -> None:
    refused = lab.lab("break", "link-down", "--device", "0", check=False)
    assert (refused.returncode, refused.stderr.count("a fault of NPUs")) == (2, 1)


def test_hosts_without_gpus_are_told_so_plainly(make_lab: MakeLab) -> None:
    bare = make_lab(hosts=1, devices=0, product="nvidia", firewall="none")
    wrong = [finding for finding in found(bare) if finding["outcome"] not in ("pass", "skip")]
    assert [finding["check"] for finding in wrong][:1] == ["GPU101"]
    assert "no NVIDIA GPU is on the PCI bus" in wrong[0]["summary"]
    assert not [finding for finding in wrong if finding["check"] not in ("GPU101", "GPU107")], "nothing follows from it"
