"""Each fault, made by `lab break` or by hand, brings the finding that is meant to see it and changes no other."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.lab.test_first_flight import preflight

pytestmark = pytest.mark.lab

Subject = tuple[str, str | None, int | None]

FAULTS: list[dict[str, Any]] = json.loads(
    subprocess.run(
        [sys.executable, "-m", "preflight", "lab", "faults", "-o", "json"], capture_output=True, text=True, check=True
    ).stdout
)


# Checks that only warn here, and why.
WARNED = {
    "NIC105": "of two hosts, nobody can say which one is cabled wrongly; node01 is named",
    "NIC107": "the format of the answer is known from the driver's source only",
    "NPU114": "it may be somebody's job",
    "NPU118": "nobody knows whose memory it is",
}
RESTLESS = {(check, "warn") for check in ("PRB103", "PRB111", "PRB115", "PRB116", "PRB118")}
RESTLESS |= {("PRB103", "unknown")}  # without the device that is stuck, three pairs are left to compare
# Tried elsewhere: root may open every file. The rest is in the lab matrix, which has leaves, more hosts, tests within
# hosts, and the minutes that a setup which hangs takes; GPUs are in test_gpus.py.
ELSEWHERE = (
    "device-file-mode", "partition", "slow-uplink", "hccs-down", "random-loss", "random-loss-out", "setup-hangs",
    "gpu-lost", "gpu-ecc", "gpu-row-remap", "gpu-nvlink", "nvidia-smi-hangs",
)  # fmt: skip


@pytest.fixture(scope="module")
def provisioned(make_lab: Callable[..., Any]) -> Any:
    lab = make_lab(hosts=2, devices=4, product="atlas-a1")
    # 4 MiB are the least that tells of bandwidth; 16 take longer, and show no other fault.
    settings = '[probe]\nstep_deadline = 10\nsizes = ["8B", "4MiB"]'
    lab.inventory.write_text(lab.inventory.read_text().replace("[probe]", settings))
    done = preflight("configure", "--inventory", lab.inventory, "-y")
    assert done.returncode == 0, done.stdout + done.stderr
    return lab


def findings(lab: Any, *options: str) -> list[dict[str, Any]]:
    done = preflight("check", "--inventory", lab.inventory, "-o", "json", "--all", *options)
    assert done.returncode in (0, 1, 3), done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def words(findings: list[dict[str, Any]]) -> dict[Subject, str]:
    """Outcome of every check per host and device; a pass of the whole host has device None."""
    return {(f["check"], f["host"], f["device"]): f["outcome"] for f in findings}


def look(lab: Any) -> dict[Subject, str]:
    return words(findings(lab))


def troubled(findings: dict[Subject, str]) -> set[str]:
    return {check for (check, _, _), outcome in findings.items() if outcome in ("fail", "unknown")}


@pytest.fixture(scope="module")
def healthy(provisioned: Any) -> dict[Subject, str]:
    findings = look(provisioned)
    assert not troubled(findings)
    return findings


@pytest.fixture
def fixed(provisioned: Any) -> Iterator[Any]:
    yield provisioned
    assert preflight("lab", "fix", "--dir", provisioned.dir).returncode == 0


def changed(before: dict[Subject, str], after: dict[Subject, str]) -> set[str]:
    """Checks whose word differs. A skip says nothing: the probe leaves out what fails, and a comparison needs two hosts
    that answer. Nor does a warning of a speed: hosts and test share two cores."""
    was, is_ = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for outcomes, of_checks in ((before, was), (after, is_)):
        for (check, _, _), outcome in outcomes.items():
            of_checks[check].add("pass" if (check, outcome) in RESTLESS else outcome)
    told = {check: outcomes - {"skip"} for check, outcomes in is_.items() if outcomes != {"skip"}}
    return {check for check, outcomes in told.items() if outcomes != was[check] - {"skip"}}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, id=fault["name"]) for fault in FAULTS if fault["name"] not in ELSEWHERE]
)
def test_a_fault_is_seen_by_its_check_and_by_no_unrelated_one(
    fixed: Any, healthy: dict[Subject, str], fault: dict[str, Any]
) -> None:
    where = ["--host", "node02", *(["--device", "2"] if fault["scope"] == "device" else [])]
    broken = preflight("lab", "break", fault["name"], *where, "--dir", fixed.dir)
    assert broken.returncode == 0, broken.stderr
    first = fault["seen_by"][0]
    found = findings(fixed)
    after = words(found)
    others = changed(healthy, after) - set(fault["seen_by"])
    assert not others, [finding for finding in found if finding["check"] in others]
    outcome = "warn" if first in WARNED else "fail"
    named = {(host, device) for (check, host, device), word in after.items() if (check, word) == (first, outcome)}
    culprit = "node01" if first == "NIC105" else "node02"
    assert any(host == culprit for host, _ in named), (named, troubled(after))
    if fault["scope"] == "device":
        assert (culprit, 2) in named
    assert preflight("lab", "fix", fault["name"], "--dir", fixed.dir).returncode == 0
    of_facts = () if first.startswith("PRB") else ("--no-probe",)
    assert not troubled(words(findings(fixed, *of_facts))), "fixed, everything passes again"


def test_a_device_file_that_is_closed_to_the_jobs_user_is_seen(make_lab: Callable[..., Any]) -> None:
    lab = make_lab(hosts=1, devices=2, product="atlas-a2", firewall="none", user="operator")
    # Jobs of a user, in a Python that a user may run: the one of the tests may be in root's home.
    jobs = '[probe]\nuser = "operator"\npython = "/usr/bin/python3"'
    lab.inventory.write_text(re.sub(r"\[probe\]\npython = .*", jobs, lab.inventory.read_text()))
    mine = {("HST109", "node01", None)}
    assert {key for key, outcome in look(lab).items() if key[0] == "HST109" and outcome == "pass"} == mine
    assert preflight("lab", "break", "device-file-mode", "--device", "1", "--dir", lab.dir).returncode == 0
    assert {key for key, outcome in look(lab).items() if key[0] == "HST109" and outcome == "fail"} == mine


def device(lab: Any, host: str, index: int) -> dict[str, Any]:
    status = json.loads(preflight("lab", "status", "--dir", lab.dir, "-o", "json").stdout)
    (entry,) = (entry for entry in status["hosts"] if entry["name"] == host)
    (found,) = (entry for entry in entry["devices"] if entry["index"] == index)
    return {**found, "host_netns": entry["netns"], "host_pid": entry["pid"]}


def by_hand(netns: str, *command: str) -> None:
    subprocess.run(["ip", "netns", "exec", netns, *command], check=True)


SLOW = "tbf rate 100mbit burst 64k latency 50ms"

HAND_MADE: dict[str, tuple[str, Callable[[dict[str, Any]], tuple[list[str], list[str]]]]] = {
    "link down with ip": (
        "NPU107",
        lambda d: (
            [d["fabric_netns"], "ip", "link", "set", d["fabric_interface"], "down"],
            [
                d["host_netns"], "sh", "-c", f"ip -n {d['fabric_netns']} link set {d['fabric_interface']} up; "
                f"nsenter -t {d['host_pid']} -a hccn_tool -i 2 -link_stat -c"
            ],
        ),
    ),
    "slow link with tc": (
        "PRB103",
        lambda d: (
            [d["fabric_netns"], *f"tc qdisc replace dev {d['fabric_interface']} root {SLOW}".split()],
            [d["fabric_netns"], "tc", "qdisc", "del", "dev", d["fabric_interface"], "root"],
        ),
    ),
    "job ports dropped with nft": (
        "FWL101",
        lambda d: (
            [d["host_netns"], "nft", "insert rule inet filter input tcp dport 60000-60031 drop comment \"by-hand\""],
            [d["host_netns"], "sh", "-c", "nft delete rule inet filter input handle "
             "$(nft -a list chain inet filter input | sed -n 's/.*by-hand.*handle //p')"],
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HAND_MADE)
def test_the_same_fault_made_by_hand_is_seen_by_the_same_check(
    provisioned: Any, healthy: dict[Subject, str], name: str
) -> None:
    check, commands = HAND_MADE[name]
    make, undo = commands(device(provisioned, "node01", 2))
    by_hand(make[0], *make[1:])
    try:
        after = look(provisioned)
    finally:
        by_hand(undo[0], *undo[1:])
    assert check in troubled(after)
    fault_of_check = {seen for fault in FAULTS if fault["seen_by"][0] == check for seen in fault["seen_by"]}
    assert changed(healthy, after) <= fault_of_check
    assert not troubled(look(provisioned))
