"""The node's gate on real hosts: installed, with a published verdict, asked as its callers do, on good and bad days."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, preflight
from tests.lab.tools import replaced

pytestmark = pytest.mark.lab

HOST, GATE, FOLDER = "node01", "/usr/local/sbin/preflight-gate", "/var/lib/preflight"
HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
PROLOG = f"env -i SLURM_SCRIPT_CONTEXT=prolog_slurmd SLURMD_NODENAME={HOST} SLURM_JOB_ID=77 {GATE}"
REBOOTED = "/proc/sys/kernel/random/boot_id"


@pytest.fixture(scope="module")
def lab(two_by_two: LabHandle) -> LabHandle:
    preflight("configure", "-i", two_by_two.inventory, "-y")
    preflight("gate", "install", "-i", two_by_two.inventory, "-y")
    preflight("check", "-i", two_by_two.inventory, "--no-probe", "--publish", check=False)
    return two_by_two


def asked(lab: LabHandle, context: str, environment: str = "") -> tuple[int, dict[str, Any]]:
    """(exit code, answer), without any variable but those given."""
    done = lab.ssh(HOST, f"env -i {environment} {GATE} --context {context} -o json", timeout=60)
    answer: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, answer


def closing(answer: dict[str, Any]) -> set[tuple[str, str, int | None]]:
    found = ((one["check"], one["outcome"], one["device"]) for one in answer["reasons"])
    return {one for one in found if one[1] != "warn"}


def warned(answer: dict[str, Any], check: str) -> list[str]:
    return [one["summary"] for one in answer["reasons"] if (one["check"], one["outcome"]) == (check, "warn")]


def done(lab: LabHandle, command: str) -> "subprocess.CompletedProcess[str]":
    found = lab.ssh(HOST, command, timeout=60)
    assert found.returncode == 0, found.stderr
    return found


@contextmanager
def until(lab: LabHandle, command: str, undo: str) -> Iterator[None]:
    done(lab, command)
    try:
        yield
    finally:
        done(lab, undo)


def records(lab: LabHandle) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done(lab, f"cat {FOLDER}/gate.jsonl").stdout.splitlines()]


@pytest.mark.parametrize("context", ["prolog", "epilog", "task", "health", "job", "init"])
def test_a_good_host_is_open_to_whoever_asks(lab: LabHandle, context: str) -> None:
    code, answer = asked(lab, context)
    assert (code, answer["open"], closing(answer)) == (0, True, set())
    assert records(lab)[-1]["context"] == context


def test_slurms_prolog_is_silent_and_is_recorded_with_its_job(lab: LabHandle) -> None:
    found = lab.ssh(HOST, PROLOG)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    assert (records(lab)[-1]["context"], records(lab)[-1]["job"]) == ("prolog", "77")


def test_an_ordinary_users_task_runs_and_by_hand_he_is_told_why_nobody_knows(lab: LabHandle) -> None:
    task = lab.ssh(HOST, f"runuser -u nobody -- env -i SLURM_SCRIPT_CONTEXT=prolog_task {GATE}")
    assert (task.returncode, task.stdout) == (0, "")
    by_hand = lab.ssh(HOST, f"runuser -u nobody -- {GATE} --local")
    assert by_hand.returncode == 3
    assert f"only root can read {FOLDER}/verdict.json" in by_hand.stdout


def test_a_read_only_disk_changes_no_answer(lab: LabHandle) -> None:
    before = records(lab)
    readonly = f"mount --bind {FOLDER} {FOLDER} && mount -o remount,bind,ro {FOLDER}"
    with until(lab, readonly, f"umount {FOLDER}"):
        assert lab.ssh(HOST, f"touch {FOLDER}/x").returncode != 0
        assert lab.ssh(HOST, PROLOG).returncode == 0
        assert asked(lab, "job")[0] == 0
    assert records(lab) == before


def test_a_full_disk_changes_no_answer(lab: LabHandle) -> None:
    small = f"cp {FOLDER}/verdict.json /root/ && mount -t tmpfs -o size=64k,mode=700 none {FOLDER} && "
    small += f"mv /root/verdict.json {FOLDER}/ && {{ cat /dev/zero > {FOLDER}/filler || :; }} 2>/dev/null"
    with until(lab, small, f"umount {FOLDER}"):
        assert lab.ssh(HOST, f"echo x > {FOLDER}/x").returncode != 0
        assert lab.ssh(HOST, PROLOG).returncode == 0
        assert asked(lab, "job")[0] == 0
        done(lab, f"rm {FOLDER}/filler")
        asked(lab, "job")
        assert [(line["context"], line["open"]) for line in records(lab)] == [("job", True)]


def booted(lab: LabHandle) -> Any:
    other = "echo 99999999-2222-3333-4444-555555555555 > /root/boot"
    return until(lab, f"{other} && mount --bind /root/boot {REBOOTED}", f"umount {REBOOTED}")


def test_a_link_is_read_by_health_and_after_a_boot(lab: LabHandle) -> None:
    lab.lab("break", "link-down", "--host", HOST, "--device", "1")
    try:
        assert asked(lab, "prolog")[0] == 0, "a fresh verdict starts no vendor tool"
        code, health = asked(lab, "health")
        assert (code, closing(health)) == (1, {("NPU107", "fail", 1)})
        with booted(lab):
            code, prolog = asked(lab, "prolog")
            assert (code, closing(prolog)) == (1, {("NPU107", "fail", 1)})
            assert asked(lab, "prolog", "SLURM_JOB_GPUS=0")[0] == 0, "it is not this job's device"
    finally:
        lab.lab("fix")
    with booted(lab):
        assert asked(lab, "prolog")[0] == 0


def test_an_address_that_a_boot_has_lost_is_seen(lab: LabHandle) -> None:
    with until(
        lab,
        "hccn_tool -i 0 -ip -s address 192.168.100.99 netmask 255.255.255.0",
        "hccn_tool -i 0 -ip -s address 192.168.100.11 netmask 255.255.255.0",
    ):
        code, answer = asked(lab, "health")
        assert (code, closing(answer)) == (1, {("NPU101", "fail", 0)})
        assert "device 0: address 192.168.100.99, expected 192.168.100.11" in answer["sentence"]


def test_a_tool_that_hangs_closes_no_node_and_is_ended(lab: LabHandle) -> None:
    with replaced(lab, HOST, HCCN_TOOL, "exec sleep 987"), booted(lab):
        code, answer = asked(lab, "prolog")
        assert (code, answer["outcome"], answer["open"]) == (0, "unknown", True)
        assert closing(answer) == {(check, "unknown", device) for check in ("NPU107", "NPU101") for device in (0, 1)}
        assert lab.ssh(HOST, PROLOG, timeout=60).returncode == 0
        assert asked(lab, "job")[0] == 3
        assert "sleep 987" not in done(lab, "ps ax -o args").stdout


def test_ports_are_looked_at_now(lab: LabHandle) -> None:
    with until(
        lab,
        "sysctl -qw net.ipv4.ip_local_reserved_ports=",
        "sysctl -qw net.ipv4.ip_local_reserved_ports=29500,60000-60031",
    ):
        assert closing(asked(lab, "prolog")[1]) == {("PRT101", "fail", None)}
    lab.lab("break", "port-taken", "--host", HOST)
    try:
        code, answer = asked(lab, "prolog")
        assert (code, closing(answer)) == (1, {("PRT103", "fail", None)})
        assert "job port 60000 is in use by " in answer["sentence"]
        assert asked(lab, "task")[0] == 0, "there it may be the job's own"
    finally:
        lab.lab("fix")
    assert asked(lab, "prolog")[0] == 0


def test_what_a_job_left_on_a_device_is_named_and_what_a_job_has_is_not(lab: LabHandle) -> None:
    # $1: a shell by the name that counts; it ends once its child has the device open.
    start = "cp /bin/sh $1 && { $1 -c 'sleep 300 9</dev/davinci1 & echo $! > /root/pid; wait' >/dev/null 2>&1 & } && "
    start += "until test -e /proc/$(cat /root/pid)/fd/9; do sleep 0.05; done"
    end = "kill $(cat /root/pid); rm /root/pid"
    with until(lab, start.replace("$1", "/root/parent"), end):
        code, answer = asked(lab, "prolog")
        assert code == 0, "a process is no fault of the host"
        [words] = warned(answer, "NPU114")
        assert words.startswith("device 1 is in use by sleep (process ")
        assert warned(asked(lab, "prolog", "SLURM_JOB_GPUS=0")[1], "NPU114") == []
    with until(lab, start.replace("$1", "/root/slurmstepd"), end):
        assert warned(asked(lab, "prolog")[1], "NPU114") == []


def test_a_switched_off_check_and_a_verdict_of_another_host(lab: LabHandle) -> None:
    with until(lab, "mv /dev/davinci1 /dev/gone", "mv /dev/gone /dev/davinci1"):
        assert closing(asked(lab, "prolog")[1]) == {("NPU109", "fail", 1)}
        with until(lab, "echo 'NPU109 # on its way' > /etc/preflight/gate.off", "rm /etc/preflight/gate.off"):
            assert asked(lab, "prolog")[0] == 0
    other = lab.ssh("node02", f"cat {FOLDER}/verdict.json").stdout
    keep = f"cp -p {FOLDER}/verdict.json /root/kept"
    with until(lab, f"{keep}; echo '{other.strip()}' > {FOLDER}/verdict.json", f"mv /root/kept {FOLDER}/verdict.json"):
        code, answer = asked(lab, "prolog")
        assert (code, answer["outcome"]) == (0, "unknown")
        assert "belongs to another host, 'node02'" in answer["sentence"]
        assert asked(lab, "job")[0] == 3
