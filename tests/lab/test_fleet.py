"""A check of 300 simulated hosts, of which some are dead, refuse, hang or answer with noise."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import preflight

pytestmark = pytest.mark.lab
OPTIONS = (
    "--think",
    "1",
    "--dead",
    "1%",
    "--refuse",
    "1%",
    "--hang",
    "1%",
    "--stall",
    "1%",
    "--garbage",
    "1%",
    "--faulty",
    "4%",
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("fleet")
    argv = [sys.executable, "-m", "preflight", "lab", "fleet", "--hosts", "300", *OPTIONS, "--dir", str(directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "300 simulated hosts answer" in process.stdout.readline()
        try:
            yield directory
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def report(fleet: Path) -> dict[str, Any]:
    stalled = hosts_by(fleet, "behaviour")["stall"]
    answering = ",".join(sorted(set().union(*hosts_by(fleet, "name").values()) - stalled))
    done = preflight("check", "--no-probe", "-i", fleet / "hosts.toml", "--limit", answering, "-o", "json", check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def hosts_by(fleet: Path, key: str) -> dict[str | None, set[str]]:
    hosts: dict[str | None, set[str]] = defaultdict(set)
    for host in json.loads((fleet / "fleet.json").read_text()):
        hosts[host[key]].add(host["name"])
    return hosts


def hosts_with(report: dict[str, Any], check: str, outcome: str) -> set[str]:
    return {it["host"] for it in report["findings"] if it["check"] == check and it["outcome"] == outcome}


def test_each_host_that_cannot_be_reached_is_named_with_its_reason(fleet: Path, report: dict[str, Any]) -> None:
    behaviours = hosts_by(fleet, "behaviour")
    reasons = {it["host"]: it["summary"] for it in report["findings"] if it["check"] == "HST101"}
    for behaviour, words in (
        ("dead", "waiting for the TCP connection"),
        ("refuse", "Connection refused"),
        ("hang", "waiting for the ssh banner"),
        ("garbage", "gave no answer"),
    ):
        assert len(behaviours[behaviour]) == 3
        assert all(words in reasons[host] for host in behaviours[behaviour]), behaviour
    unreachable = behaviours["dead"] | behaviours["refuse"] | behaviours["hang"]
    assert hosts_with(report, "HST101", "fail") == unreachable


def test_each_fault_is_named_and_every_other_host_is_complete(fleet: Path, report: dict[str, Any]) -> None:
    drifts, behaviours = hosts_by(fleet, "drift"), hosts_by(fleet, "behaviour")
    assert hosts_with(report, "PRT101", "fail") == drifts["ports-not-reserved"]
    assert hosts_with(report, "HST102", "fail") | hosts_with(report, "HST102", "warn") == drifts["wrong-clock"]
    answering = behaviours[None]
    failed = {it["host"] for it in report["findings"] if it["outcome"] in ("fail", "unknown")} - {None}
    assert failed & answering <= drifts["ports-not-reserved"] | drifts["wrong-clock"] | named_as_peers(report)


def named_as_peers(report: dict[str, Any]) -> set[str]:
    """Hosts to which a host without facts could not test connections."""
    return {it["host"] for it in report["findings"] if it["check"] == "FWL104" and it["outcome"] == "unknown"}


def test_a_check_ends_with_its_budget_and_a_host_without_an_answer_is_unknown(fleet: Path) -> None:
    """The hosts accept the login and never answer: without a budget they have more than a minute."""
    stalled = hosts_by(fleet, "behaviour")["stall"]
    argv = ("check", "--no-probe", "--budget", "10s", "-i", fleet / "hosts.toml", "--limit", ",".join(stalled))
    document = json.loads(preflight(*argv, "-o", "json", check=False).stdout)
    reasons = {it["host"]: it["summary"] for it in document["findings"] if it["check"] == "HST101"}
    assert set(reasons) == stalled == hosts_with(document, "HST101", "unknown")
    assert all("still waited for the program when the time budget ended" in words for words in reasons.values())
    assert document["exit"] == 3


@pytest.mark.usefixtures("fleet")
def test_a_second_fleet_is_refused_and_leaves_the_first_alone(tmp_path: Path) -> None:
    done = preflight("lab", "fleet", "--hosts", "2", "--dir", tmp_path / "other", check=False)
    assert done.returncode == 2
    assert "Another fleet runs" in done.stderr
    assert not (tmp_path / "other").exists()
