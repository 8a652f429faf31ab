"""What is wrong with one host's name, its resolver or its /dev/shm is found on that host, on real hosts of a lab."""

import json

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab
OURS = "HST124,HST125,HST126,HST127,HST128,HST129,HST131,HST134"
# A name server that takes questions and never answers.
SILENT = (
    'python3 -c \'import socket, time; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(("127.0.0.1", 53)); '
    "time.sleep(120)' >/dev/null 2>&1 </dev/null & echo $! >/run/silent.pid"
)


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    return make_lab(hosts=2, devices=1, product="atlas-a2")


def speaking(lab: LabHandle) -> dict[str, dict[str, str]]:
    """Check → host → outcome, of those that are neither pass nor skip."""
    done = preflight("check", "-i", lab.inventory, "--no-ping", "--no-probe", "--only", OURS, "-o", "json", check=False)
    found: dict[str, dict[str, str]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        if finding["outcome"] not in ("pass", "skip"):
            found.setdefault(finding["check"], {})[finding["host"]] = finding["outcome"]
    return found


def run(lab: LabHandle, host: str, command: str) -> None:
    done = lab.ssh(host, command)
    assert done.returncode == 0, done.stderr


def test_a_fresh_lab_has_good_names(lab: LabHandle) -> None:
    assert speaking(lab) == {}


@pytest.mark.parametrize(
    ("host", "fault", "undo", "expected"),
    [
        ("node02", "hostname 6841231", "hostname node02", {"HST124": {"node02": "fail"}}),
        ("node02", "mount -t tmpfs -o mode=755,size=64m tmpfs /dev/shm", "umount /dev/shm",
         {"HST131": {"node02": "warn"}}),
        ("node01", "cp /etc/hosts /run/hosts; sed -i 's/^.* node01$/127.0.1.1 node01/' /etc/hosts",
         "cat /run/hosts >/etc/hosts", {"HST127": {"node01": "warn"}}),
        ("node02", "cp /etc/hosts /run/hosts; echo '10.9.9.9 localhost' >/run/new; grep -v localhost /etc/hosts "
         ">>/run/new; cat /run/new >/etc/hosts", "cat /run/hosts >/etc/hosts", {"HST125": {"node02": "fail"}}),
    ],
    ids=["all-digits", "closed-dev-shm", "own-name-is-loopback", "localhost-is-another-host"],
)  # fmt: skip
def test_a_fault_of_one_host_is_one_finding(
    lab: LabHandle, host: str, fault: str, undo: str, expected: dict[str, dict[str, str]]
) -> None:
    run(lab, host, fault)
    try:
        found = speaking(lab)
    finally:
        run(lab, host, undo)
    assert found == expected


def test_a_name_server_that_is_dead_is_told(lab: LabHandle) -> None:
    run(lab, "node02", "cp /etc/hosts /run/hosts; touch /etc/resolv.conf; cp /etc/resolv.conf /run/resolv.conf")
    run(lab, "node02", SILENT)
    run(lab, "node02", "printf '127.0.0.1 localhost\\n::1 localhost\\n' >/etc/hosts")
    run(lab, "node02", "echo nameserver 127.0.0.1 >/etc/resolv.conf")
    try:
        found = speaking(lab)
    finally:
        run(lab, "node02", "cat /run/hosts >/etc/hosts; cat /run/resolv.conf >/etc/resolv.conf")
        run(lab, "node02", "kill $(cat /run/silent.pid)")
    assert found["HST126"] == {"node02": "warn"}
    assert found["HST128"] == {"node02": "unknown"}
    assert set(found) <= {"HST126", "HST127", "HST128"}, "what else needs an answer may be unknown"
