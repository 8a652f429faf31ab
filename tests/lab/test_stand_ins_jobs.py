"""What a job leaves on a stand-in device: a process in the table, its memory, and HCCP for a while if it was killed."""

import re
import subprocess
import tomllib

import pytest

from tests.lab.conftest import LabHandle, MakeLab

pytestmark = pytest.mark.lab

JOB = """
import sys, torch.distributed as dist, torch_npu, torch
torch.npu.set_device(1)
store = dist.TCPStore("127.0.0.1", 29500, 1, True)
dist.init_process_group("hccl", store=store, rank=0, world_size=1)
dist.all_reduce(torch.ones(1))
print("ready", flush=True)
sys.stdin.readline()
dist.destroy_process_group()
"""
HCCP = "hccn_tool -i 1 -process -g"
GONE = f"timeout 20 sh -c 'until {HCCP} | grep \"not exist\"; do sleep 0.1; done'"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=1, devices=2, firewall="none")
    lab.configure_devices()
    return lab


@pytest.fixture
def job(lab: LabHandle) -> "subprocess.Popen[str]":
    """A job with a communicator on device 1; its stdin ends it."""
    probe = tomllib.loads(lab.inventory.read_text())["probe"]
    command = f"{probe['setup']}; TORCH_DEVICE_BACKEND_AUTOLOAD=0 exec {probe['python']} -c '{JOB}'"
    started = subprocess.Popen(
        lab.ssh_command("node01", command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    return started


def said(lab: LabHandle, command: str) -> str:
    return lab.ssh("node01", command).stdout


def kill(lab: LabHandle, job: "subprocess.Popen[str]") -> None:
    said(lab, "kill -9 $(ls /run/preflight-lab/process/1)")
    job.wait(20)


def test_a_running_job_shows_in_every_tool(lab: LabHandle, job: "subprocess.Popen[str]") -> None:
    try:
        assert said(lab, HCCP) == "device hccp process: exist\n"
        assert "[devid 1] qp_active: 2\n" in said(lab, "hccn_tool -i 1 -hw_stats -g")
        assert "Process name:python" in said(lab, "npu-smi info -t proc-mem -i 1 -c 0")
        idle, busy = map(int, re.findall(r"(\d+) */ 32768", said(lab, "npu-smi info")))
        assert busy > idle
    finally:
        kill(lab, job)
    assert said(lab, HCCP) == "device hccp process: not exist\n", "no setting, no waiting"


@pytest.mark.parametrize("end", ["killed", "as it should"])
def test_hccp_stays_behind_a_killed_job_and_goes_with_one_that_ends(
    lab: LabHandle, end: str, request: pytest.FixtureRequest
) -> None:
    lab.lab("set", "linger-s", "3")
    try:
        job = request.getfixturevalue("job")
        if end == "killed":
            kill(lab, job)
            assert said(lab, HCCP) == "device hccp process: exist\n"
            assert "No running processes found in NPU 1" in said(lab, "npu-smi info")
        else:
            job.communicate("\n", timeout=20)
            assert said(lab, HCCP) == "device hccp process: not exist\n"
        assert "not exist" in said(lab, GONE)
    finally:
        lab.lab("set", "linger-s", "0")
