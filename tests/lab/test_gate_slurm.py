"""The gate as the scripts of real slurmd: a broken node is drained by name and its job runs elsewhere; and where it is
preflight that is broken, no node is drained."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.lab.conftest import MakeLab, preflight
from tests.lab.slurm_cluster import GATE, NODES, PROGRAM, SlurmCluster, publish, running

pytestmark = pytest.mark.lab

UNRESERVED = "preflight: PRT101 job ports 29500, 60000, 60001 and 30 more are not reserved"


@pytest.fixture(scope="module")
def slurm(make_lab: MakeLab) -> Iterator[SlurmCluster]:
    lab = make_lab(hosts=5, devices=1, firewall="none")
    scripts = "\n".join(f"{role}={GATE}" for role in ("Prolog", "Epilog", "TaskProlog"))
    with running(lab, scripts) as slurm:
        yield slurm


@pytest.fixture(autouse=True)
def all_good(slurm: SlurmCluster) -> Iterator[None]:
    yield
    for name in NODES:
        reserve(slurm, name)
    slurm.back_to_work()


def break_(slurm: SlurmCluster, node: str) -> None:
    """Its job ports are reserved no more: connections of others take them now and then."""
    slurm.lab.ssh(node, "sysctl -qw net.ipv4.ip_local_reserved_ports=")


def reserve(slurm: SlurmCluster, node: str) -> None:
    slurm.lab.ssh(node, "sysctl -qw net.ipv4.ip_local_reserved_ports=29500,60000-60031")


def test_a_broken_node_is_drained_by_name_and_its_job_runs_elsewhere(slurm: SlurmCluster) -> None:
    break_(slurm, "node02")
    job = slurm.submit("--nodelist=node01", nodes=2)
    assert slurm.ended(job)["Restarts"] == "1"
    assert slurm.nodes_of(job) == ["node01", "node03"]
    assert slurm.reasons() == {"node02": UNRESERVED}
    assert (
        "prolog failed: rc:1 output:preflight: node02 is broken: PRT101"
        in slurm.lab.ssh("node02", "cat /run/slurmd.log").stdout
    )


def test_a_published_verdict_closes_a_node_as_well(slurm: SlurmCluster) -> None:
    slurm.lab.lab("break", "health-alarm", "--host", "node03", "--device", "0")
    try:
        publish(slurm.lab, "node03")
        job = slurm.submit("--nodelist=node03", nodes=2)
        slurm.wait(slurm.reasons, "a drain")
        assert list(slurm.reasons()) == ["node03"]
        assert slurm.reasons()["node03"].startswith("preflight: NPU117 device 0: ")
        slurm.call("scancel", job)
    finally:
        slurm.lab.lab("fix")
        publish(slurm.lab, "node03")


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_who_waits_for_nodes_is_told(slurm: SlurmCluster, command: str) -> None:
    break_(slurm, "node02")
    end = ("true",) if command == "salloc" else ("--chdir=/", "true")
    done = slurm.call(command, "--nodes=2", "--nodelist=node01,node02", *end, check=False)
    assert done.returncode != 0
    assert slurm.reasons() == {"node02": UNRESERVED}


def test_more_than_may_be_are_not_drained_and_jobs_run(slurm: SlurmCluster) -> None:
    """Of four nodes a tenth is none, and one may always be: the first is, or nobody where several came at once."""
    for node in NODES:
        break_(slurm, node)
    slurm.ended(slurm.submit(nodes=3))
    assert len(slurm.reasons()) <= 1
    records = "".join(slurm.record(node) for node in NODES)
    assert re.search(r"systemic: preflight would have drained [23] of 4 nodes, but the limit is 1", records)


def test_a_reason_of_somebody_else_stays(slurm: SlurmCluster) -> None:
    break_(slurm, "node04")
    slurm.call("scontrol", "update", "nodename=node04", "state=drain", "reason=dead fan [ticket 7]")
    drain = slurm.lab.ssh("node04", f"SLURM_SCRIPT_CONTEXT=prolog_slurmd SLURMD_NODENAME=node04 {GATE}")
    assert drain.returncode == 1
    assert slurm.reasons() == {"node04": "dead fan [ticket 7]"}
    assert "the drain reason is not preflight's" in slurm.record("node04")


def test_an_epilog_never_drains_its_node(slurm: SlurmCluster) -> None:
    job = slurm.call("sbatch", "--parsable", "--chdir=/", "--output=/dev/null", "--nodelist=node02",
                     "--wrap=sysctl -qw net.ipv4.ip_local_reserved_ports=").stdout.strip()  # fmt: skip
    slurm.ended(job)
    slurm.wait(lambda: '"epilog", "outcome": "fail"' in slurm.record("node02"), "the epilog's record")
    slurm.wait(slurm.all_idle, "idle nodes")
    assert slurm.reasons() == {}


def test_a_task_s_own_devices_are_looked_at_as_its_user(slurm: SlurmCluster) -> None:
    words = ("env", "ASCEND_VISIBLE_DEVICES=0", "srun", "--uid=65534", "--chdir=/", "--nodelist=node02", "id", "-u")
    refused = slurm.call(*words, check=False)
    assert refused.returncode != 0
    assert "device 0: user 65534 has no permission to open /dev/davinci0" in refused.stdout + refused.stderr
    slurm.lab.ssh("node02", "chmod 666 /dev/davinci0")
    try:
        assert slurm.call(*words).stdout == "65534\n"
    finally:
        slurm.lab.ssh("node02", "chmod 660 /dev/davinci0")
    assert slurm.reasons() == {}


def broken(slurm: SlurmCluster, how: str, node: str) -> None:
    match how:
        case "its policy is damaged":
            slurm.put(node, "/etc/preflight/gate.json", '{"schema": "preflight.gate/1", "host"')
        case "its policy is gone":
            slurm.lab.ssh(node, "rm /etc/preflight/gate.json")
        case "its verdict is damaged":
            slurm.put(node, "/var/lib/preflight/verdict.json", "\0" * 4096)
        case "its program raises":
            text = slurm.lab.ssh(node, f"cat {PROGRAM}").stdout
            assert "def decide(" in text
            slurm.put(node, PROGRAM, text.replace("def decide(", "def no_decide("), "755")
        case "its program hangs":
            text = slurm.lab.ssh(node, f"cat {PROGRAM}").stdout
            hang = "def decide(*_, **__):\\n    import time\\n    time.sleep(600)\\n\\ndef no_decide("
            slurm.put(node, PROGRAM, text.replace("def decide(", hang), "755")


HOW = (
    "its policy is damaged", "its policy is gone", "its verdict is damaged", "its program raises", "its program hangs",
)  # fmt: skip


@pytest.mark.parametrize("how", HOW)
def test_where_preflight_is_broken_nobody_is_drained(slurm: SlurmCluster, how: str) -> None:
    broken(slurm, how, "node01")
    try:
        job = slurm.submit("--nodelist=node01", nodes=2)
        assert slurm.ended(job)["Restarts"] == "0"
        assert slurm.reasons() == {}
    finally:
        preflight("gate", "install", "-y", "--force", "-i", slurm.lab.inventory, "--limit", "node01")
        publish(slurm.lab, "node01")


def test_a_slurmctld_that_does_not_answer_costs_no_node(slurm: SlurmCluster) -> None:
    break_(slurm, "node02")
    slurm.lab.ssh("node05", "kill -STOP $(cat /run/slurmctld.pid)")
    try:
        done = slurm.lab.ssh(
            "node02", f"SLURM_SCRIPT_CONTEXT=prolog_slurmd SLURMD_NODENAME=node02 {GATE}; echo $?", timeout=30
        )
    finally:
        slurm.lab.ssh("node05", "kill -CONT $(cat /run/slurmctld.pid)")
    assert done.stdout == "0\n"
    assert "not drained: /usr/bin/scontrol did not answer within 2.0 s" in done.stderr
    assert slurm.reasons() == {}


def health(slurm: SlurmCluster, node: str) -> int:
    """As slurmd calls it: with its own name and nothing else (22.05.8)."""
    return slurm.lab.ssh(node, f"env -i SLURMD_NODENAME={node} {GATE}").returncode


def test_the_health_check_drains_and_gives_back_only_when_told_so(slurm: SlurmCluster) -> None:
    text = slurm.lab.ssh("node02", "cat /etc/preflight/gate.json").stdout
    break_(slurm, "node02")
    assert health(slurm, "node02") == 0
    assert slurm.reasons() == {"node02": UNRESERVED}
    reserve(slurm, "node02")
    try:
        assert health(slurm, "node02") == 0
        assert slurm.reasons() == {"node02": UNRESERVED}
        policy = json.loads(text)
        slurm.put("node02", "/etc/preflight/gate.json", json.dumps({**policy, "undrain": True}))
        assert health(slurm, "node02") == 0
        assert slurm.reasons() == {}
    finally:
        slurm.put("node02", "/etc/preflight/gate.json", text)


def test_slurmd_runs_the_health_check(slurm: SlurmCluster) -> None:
    slurm.reconfigure(HealthCheckProgram=GATE, HealthCheckInterval="1", HealthCheckNodeState="IDLE")
    try:
        break_(slurm, "node03")
        slurm.wait(lambda: slurm.reasons() == {"node03": UNRESERVED}, "the health check")
    finally:
        slurm.reconfigure(HealthCheckProgram="", HealthCheckInterval="", HealthCheckNodeState="")
    assert re.search(r'"context": "health", .*"slurm": "drained"', slurm.record("node03"))
