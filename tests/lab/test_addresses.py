"""Device addresses on lab hosts with the stand-in hccn_tool: what is set, kept, restored, refused and taken back."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

CONF = "/etc/hccn.conf"
STATE = "/run/preflight-lab/state/0"
INSIDE = "nsenter --net=/run/preflight-lab/device/{} ip {}"


def configure(
    lab: LabHandle, *arguments: str | Path, inventory: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    command = ("configure-device-ips", "--inventory", inventory or lab.inventory, "-y", *arguments)
    return preflight(*command, check=False, stdin=subprocess.DEVNULL)


def changes(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads(done.stdout)["changes"]
    return made


def on(lab: LabHandle, command: str, host: str = "node01") -> str:
    done = lab.ssh(host, command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def hccn(lab: LabHandle, words: str, device: int = 0) -> str:
    return on(lab, f"hccn_tool -i {device} {words}")


def edited(lab: LabHandle, name: str, *pairs: tuple[str, str]) -> Path:
    """The lab's inventory with other words in it."""
    text = lab.inventory.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path = lab.dir / name
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    return make_lab(hosts=2, devices=2, firewall="none")


@pytest.fixture
def right(lab: LabHandle) -> LabHandle:
    """The lab as the inventory wants it."""
    done = configure(lab, "--allow-disturbing")
    assert done.returncode == 0, done.stdout
    return lab


def test_all_that_is_planned_is_set_in_its_order_and_stands_in_the_file(lab: LabHandle) -> None:
    """A fresh host: first the address, then what needs one."""
    with_mtu = edited(lab, "mtu.toml", ("devices = 2\n", "devices = 2\ndevice_mtu = 1400\n"))
    done = configure(lab, "-o", "json", inventory=with_mtu)
    assert done.returncode == 0, done.stdout
    kinds = [change["kind"] for change in changes(done) if change["host"] == "node01"]
    order = ["device-address", "device-gateway", "device-detect", "device-mtu"]
    assert kinds == [kind for kind in order for _ in range(2)]
    assert sorted(line for line in on(lab, f"cat {CONF}").splitlines() if "_1=" in line) == [
        "address_1=192.168.101.11", "gateway_1=192.168.101.1", "mtu_1=1400", "netdetect_1=192.168.101.1",
        "netmask_1=255.255.255.0",
    ]  # fmt: skip
    assert "mtu:1400" in hccn(lab, "-mtu -g", 1)
    assert "Success" in hccn(lab, "-net_health -g")
    again = configure(lab, "-o", "json", inventory=with_mtu)
    assert (again.returncode, changes(again)) == (0, [])


def test_a_stale_file_is_written_by_the_tool_itself(right: LabHandle) -> None:
    on(right, f"sed -i s/^address_1=.*/address_1=10.9.9.9/ {CONF}; sed -i /^netdetect_0/d {CONF}")
    device = hccn(right, "-ip -g", 1)
    done = configure(right, "-o", "json")
    assert done.returncode == 0, done.stdout
    assert [(change["kind"], change["target"], change["state"]) for change in changes(done)] == [
        ("device-saved", "0 netdetect", "done"),
        ("device-saved", "1 address", "done"),
    ]
    assert {"address_1=192.168.101.11", "netdetect_0=192.168.100.1"} <= set(on(right, f"cat {CONF}").splitlines())
    assert hccn(right, "-ip -g", 1) == device


def test_a_missing_file_is_made_and_one_cut_at_its_end_stays_whole(right: LabHandle) -> None:
    on(right, f"rm {CONF}")
    assert configure(right).returncode == 0
    assert len(on(right, f"cat {CONF}").splitlines()) == 2 * 4
    on(right, f"sed -i /^gateway_0/d {CONF}; printf 'tls_enable_1=0' >>{CONF}")
    assert configure(right).returncode == 0
    assert {"tls_enable_1=0", "gateway_0=192.168.100.1"} <= set(on(right, f"cat {CONF}").splitlines())


def test_a_device_that_lost_its_settings_gets_all_of_the_file_back_if_that_may_disturb(right: LabHandle) -> None:
    on(right, f"printf 'tls_enable_0=0\\nmtu_0=1399\\n' >>{CONF}")
    before = on(right, f"cat {CONF}")
    on(right, f"{INSIDE.format(0, 'addr flush dev eth0')}; {INSIDE.format(0, 'link set eth0 down mtu 1500')}")
    held = configure(right)
    assert held.returncode == 1
    assert re.search(r"node01: device 0 from /etc/hccn.conf: .*--allow-disturbing", held.stdout, re.DOTALL)
    assert not right.ssh("node01", "hccn_tool -i 0 -ip -g").stdout, "nothing was done by halves"
    done = configure(right, "--allow-disturbing", "-o", "json")
    assert [(change["kind"], change["risk"], change["state"]) for change in changes(done)] == [
        ("device-recovery", "disturbing", "done")
    ]
    for words, found in (("-ip -g", "192.168.100.11"), ("-gateway -g", "192.168.100.1,"), ("-mtu -g", "1399"),
                         ("-tls -g", "switch[0]")):  # fmt: skip
        assert found in hccn(right, words)
    assert on(right, f"cat {CONF}") == before
    on(right, "hccn_tool -i 0 -tls -s enable 1; hccn_tool -i 0 -mtu -s size 1400")


def test_a_device_that_is_being_restored_is_waited_for(right: LabHandle) -> None:
    on(right, "hccn_tool -i 0 -netdetect -s address 192.168.100.9")
    on(right, f"echo recovery=START >>{STATE}; (sleep 2; sed -i s/START/SUCCESS/ {STATE}) >/dev/null 2>&1 &")
    done = configure(right)
    assert done.returncode == 0, done.stdout
    assert "192.168.100.1" in hccn(right, "-netdetect -g")


def test_a_recovery_that_failed_is_told_with_the_log(right: LabHandle) -> None:
    on(right, f"sed -i s/^recovery=.*/recovery=FAIL/ {STATE}; grep -q recovery {STATE} || echo recovery=FAIL >>{STATE}")
    done = preflight("check", "--inventory", right.inventory, "--only", "NPU112", check=False)
    on(right, f"sed -i s/FAIL/SUCCESS/ {STATE}")
    assert "/var/log/hccn_tool/hccn_config.log" in done.stdout
    assert "device 0" in done.stdout


def test_a_busy_tool_is_asked_again(right: LabHandle) -> None:
    on(right, "hccn_tool -i 1 -netdetect -s address 192.168.101.9")
    on(right, "flock /run/preflight-lab/hccn_tool.lock sleep 3 >/dev/null 2>&1 &")
    done = configure(right)
    assert done.returncode == 0, done.stdout
    assert "192.168.101.1" in hccn(right, "-netdetect -g", 1)


def test_a_refusal_says_what_to_do(lab: LabHandle) -> None:
    """One subnet on an A1 says that it is in AMP mode; this one is not, and its tool refuses more."""
    plan = lab.inventory.read_text()
    start, end = plan.index("[device_addresses]"), plan.index("[ports]")
    amp = lab.dir / "amp.toml"
    amp.write_text(plan[:start] + '[device_addresses]\nplan = "one-subnet"\nsubnet = "192.168.3.0/24"\n\n' + plan[end:])
    done = configure(lab, inventory=amp)
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "another device on this host has the address, or the driver reserves its range. Set another" in said
    assert "The ip address configured is conflicted!" in said


def test_a_move_to_another_subnet_and_back_by_rollback(right: LabHandle) -> None:
    """The old gateway goes with the old address, in both directions; the file has its bytes again."""
    settings = "for i in 0 1; do for c in ip gateway netdetect; do hccn_tool -i $i -$c -g; done; done"
    before, file = on(right, settings), on(right, f"cat {CONF}")
    elsewhere = edited(right, "elsewhere.toml", *((f"192.168.10{i}.", f"10.77.{i}.") for i in range(4)))
    moved = configure(right, "-o", "json", inventory=elsewhere)
    assert {change["state"] for change in changes(moved)} == {"done"}, moved.stdout
    assert "default gateway:10.77.1.1" in hccn(right, "-gateway -g", 1)
    run = json.loads(moved.stdout)["run"]
    back = preflight("rollback", run, "--inventory", right.inventory, "-y", check=False)
    assert back.returncode == 0, back.stdout + back.stderr
    assert on(right, settings) == before
    assert on(right, f"cat {CONF}") == file


def test_whose_process_uses_a_device_is_said(right: LabHandle) -> None:
    hold = (
        "mkdir -p /run/preflight-lab/process/1; exec 9>/run/preflight-lab/process/1/$$; flock 9; echo $$; exec sleep 60"
    )
    job = subprocess.Popen(right.ssh_command("node01", hold), stdout=subprocess.PIPE, text=True)
    try:
        assert job.stdout
        pid = job.stdout.readline().strip()
        on(right, "hccn_tool -i 1 -netdetect -s address 192.168.101.9")
        done = configure(right)
        said = " ".join(done.stdout.split())
        assert f"device 1 is left out: process sleep (pid {pid}, user root) uses it." in said
    finally:
        on(right, f"kill {pid}")
        job.wait(timeout=10)
