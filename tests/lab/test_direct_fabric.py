"""Two hosts joined by fibre, device by device: what holds for all ranks there, and a fibre that is cut."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight


@pytest.fixture(scope="module")
def direct(make_lab: MakeLab) -> Iterator[LabHandle]:
    lab = make_lab(hosts=2, devices=2, firewall="none", fabric="direct")
    lab.configure_devices()
    yield lab


def probe(lab: LabHandle, *arguments: str) -> dict[str, Any]:
    done = preflight("probe", "--inventory", lab.inventory, "--idle", "--quick", *arguments, "-o", "json", check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def failed(report: dict[str, Any]) -> str:
    return " ".join(f"{it['check']} {it['summary']}" for it in report["findings"] if it["outcome"] == "fail")


@pytest.mark.lab
def test_all_ranks_do_every_collective_and_send_only_along_the_fibres(direct: LabHandle) -> None:
    report = probe(direct, "--scope", "all,rail")
    assert not failed(report)
    done = {(test["op"], len(test["members"])) for test in report["tests"] if test["outcome"] == "pass"}
    assert {("all_reduce", 4), ("all_to_all", 4), ("scatter", 4), ("barrier", 4), ("send_recv", 2)} <= done
    assert ("send_recv", 4) not in done
    assert any("send_recv" in note for note in report["notes"])


@pytest.mark.lab
def test_a_fibre_that_is_cut_is_dark_at_both_ends_and_named(direct: LabHandle) -> None:
    direct.lab("break", "link-down", "--host", "node02", "--device", "1")
    try:
        said = failed(probe(direct))
    finally:
        direct.lab("fix")
    assert "device 1" in said
    assert "NPU107" in said or "network port is down" in said
    assert "node01" in said
    assert "node02" in said


@pytest.mark.lab
def test_a_fibre_that_carries_nothing_though_it_has_light_is_named(direct: LabHandle) -> None:
    host = direct.status["hosts"][1]
    fabric, port = host["netns"].replace("node02", "fabric"), host["devices"][1]["fabric_interface"]
    subprocess.run(["ip", "-n", fabric, "link", "set", port, "nomaster"], check=True)
    try:
        report = probe(direct, "--scope", "all,pair")
    finally:
        subprocess.run(["ip", "-n", fabric, "link", "set", port, "master", "rail1"], check=True)
    assert [(it["kind"], it["members"]) for it in report["culprits"]] == [("link", ["node01/1", "node02/1"])]
    assert "node01/1 and node02/1 both stopped" in failed(report)
