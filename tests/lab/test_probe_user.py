"""The probe as another user than the one who logs in, by sudo and through a wrapper (`probe.user`, `probe.exec`)."""

import json
import signal

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.lab.test_probe import agents, left_after, running

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
    assert agents(lab) == {}


def test_when_its_run_is_killed_nothing_is_left_behind_sudo_and_wrapper(lab: LabHandle) -> None:
    with running(lab, 4) as controller:
        controller.send_signal(signal.SIGKILL)
        controller.wait(5)
    assert left_after(5, lab) == {}
