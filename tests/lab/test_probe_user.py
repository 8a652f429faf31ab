"""The probe as another user than the one who logs in, by sudo and through a wrapper (`probe.user`, `probe.exec`)."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight
from tests.lab.test_probe import agents

pytestmark = pytest.mark.lab

# In the place of a container's runtime: namespaces of its own, and a process between ours and the agent.
SETTINGS = 'user = "root"\nexec = ["unshare", "--ipc", "--uts", "--fork"]\n'


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    made = make_lab(hosts=2, devices=2, product="atlas-a1", firewall="none", user="ops")
    text = made.inventory.read_text().replace("[probe]\n", f"[probe]\n{SETTINGS}")
    text = text.replace('backend = "hccl"', 'backend = "gloo"')
    made.inventory.write_text(text)
    return made


def test_it_passes_and_leaves_nothing(lab: LabHandle) -> None:
    done = preflight("probe", "--inventory", lab.inventory, "--quick", "--scope", "all", "-o", "json", check=False)
    report = json.loads(done.stdout)
    assert {test["outcome"] for test in report["tests"]} == {"pass"}, report["findings"]
    assert agents(lab) == []


def test_when_its_run_is_killed_nothing_is_left_behind_sudo_and_wrapper(lab: LabHandle) -> None:
    command = [sys.executable, "-m", "preflight", "probe", "--inventory", str(lab.inventory), "--sizes", "8,64M"]
    controller = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while sum(name.startswith("preflight-r") for name in agents(lab)) < 4:
        assert time.monotonic() < until
        assert controller.poll() is None
        time.sleep(0.05)
    controller.send_signal(signal.SIGKILL)
    controller.wait(5)
    until = time.monotonic() + 5
    while agents(lab) and time.monotonic() < until:
        time.sleep(0.1)
    assert agents(lab) == []
