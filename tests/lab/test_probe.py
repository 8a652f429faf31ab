"""The probe against hosts of a lab: real ssh, real device NICs, real faults; the backend hccl is the lab's stand-in."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Two hosts of eight addressed devices; the firewall is off, since it is not what is tested here."""
    made = make_lab(hosts=2, devices=8, product="atlas-a1", firewall="none")
    made.configure_devices()
    return made


@pytest.fixture
def broken(lab: LabHandle) -> Iterator[Callable[..., None]]:
    """Break something on node02; it is fixed afterwards."""
    broken: list[str] = []

    def break_(fault: str, *where: str) -> None:
        broken.append(fault)
        lab.lab("break", fault, "--host", "node02", *where)

    yield break_
    for fault in broken:
        lab.lab("fix", fault)


def probe(lab: LabHandle, *options: str) -> dict[str, Any]:
    done = preflight("probe", "--inventory", lab.inventory, "-o", "json", "--all", *options, check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["exit"] == done.returncode, done.stderr
    return report


def named(report: dict[str, Any], check: str, outcome: str = "fail") -> set[tuple[str | None, int | None]]:
    return {(f["host"], f["device"]) for f in report["findings"] if (f["check"], f["outcome"]) == (check, outcome)}


def sent(netns: str, interface: str) -> int:
    """Bytes that left through an interface."""
    done = subprocess.run(
        ["ip", "-n", netns, "-s", "-j", "link", "show", "dev", interface], capture_output=True, text=True, check=True
    )
    return int(json.loads(done.stdout)[0]["stats64"]["tx"]["bytes"])


def test_sixteen_ranks_pass_and_their_bytes_cross_the_device_nics(lab: LabHandle) -> None:
    hosts = lab.status["hosts"]
    nics = [(device["netns"], device["interface"]) for host in hosts for device in host["devices"]]
    before = [sent(*nic) for nic in nics], [sent(host["netns"], "eth0") for host in hosts]
    report = probe(lab)
    after = [sent(*nic) for nic in nics], [sent(host["netns"], "eth0") for host in hosts]
    assert report["verdict"] == "pass", report["findings"]
    assert {len(test["members"]) for test in report["tests"]} == {16, 2, 1}
    # A pair may be slow on a busy machine; the verdict is what counts.
    assert {test["outcome"] for test in report["tests"]} <= {"pass", "slow"}
    assert {test["root"] for test in report["tests"]} == {None, *range(16)}
    over_devices, over_hosts = ([b - a for a, b in zip(*pair, strict=True)] for pair in zip(before, after, strict=True))
    assert min(over_devices) > 8 << 20, over_devices
    assert max(over_hosts) < 4 << 20, over_hosts


def test_over_gloo_the_host_nics_carry_the_bytes(lab: LabHandle) -> None:
    hosts = lab.status["hosts"]
    before = [sent(host["netns"], "eth0") for host in hosts]
    assert probe(lab, "--backend", "gloo")["verdict"] == "pass"
    assert min(sent(host["netns"], "eth0") - count for host, count in zip(hosts, before, strict=True)) > 8 << 20


def test_devices_whose_workers_died_are_free_before_others_take_them(
    lab: LabHandle, broken: Callable[..., None]
) -> None:
    """Else the pairs of round 2 would be told that another job runs, and nobody would know which rail is ill."""
    lab.lab("set", "linger-s", "4")
    try:
        broken("link-down", "--device", "1")
        report = probe(lab, "--quick")
    finally:
        lab.lab("set", "linger-s", "0")
    assert named(report, "PRB101") == {("node02", 1)}
    assert {len(test["members"]) for test in report["tests"] if test["outcome"] == "pass"} >= {2}
    assert "EJ0001" not in json.dumps(report)


def test_a_probe_that_ends_well_leaves_its_devices_at_once(lab: LabHandle) -> None:
    lab.lab("set", "linger-s", "4")
    try:
        assert probe(lab, "--quick")["exit"] == 0
    finally:
        lab.lab("set", "linger-s", "0")
    said = lab.ssh("node01", "for i in 0 1 2 3 4 5 6 7; do hccn_tool -i $i -process -g; done").stdout
    assert said.splitlines() == ["device hccp process: not exist"] * 8


def test_afterwards_no_process_is_left_and_the_job_ports_can_be_bound(lab: LabHandle) -> None:
    assert probe(lab, "--quick")["exit"] == 0
    assert not agents(lab)
    bind = "import socket; [socket.socket().bind(('', p)) for p in (29500, *range(60000, 60032))]"
    for host in ("node01", "node02"):
        done = lab.ssh(host, f'python3 -c "{bind}"')
        assert done.returncode == 0, done.stderr


def test_a_slow_port_is_named_though_every_value_is_right(lab: LabHandle, broken: Callable[..., None]) -> None:
    broken("slow-link", "--device", "3")
    report = probe(lab, "--quick")
    # With other tests beside it the machine may be too busy to tell which end it is: then the pair is named.
    (found,) = [one for one in report["findings"] if one["check"] == "PRB103" and one["outcome"] == "fail"]
    assert "node02/3" in (f"{found['host']}/{found['device']}", found["peer"])
    assert not named(report, "PRB101")
    assert not named(report, "PRB102")


def test_a_port_that_is_down_is_named(lab: LabHandle, broken: Callable[..., None]) -> None:
    broken("link-down", "--device", "5")
    report = probe(lab, "--quick")
    assert ("node02", 5) in named(report, "PRB101")
    assert {host for host, _ in named(report, "PRB101")} == {"node02"}
    met = [test for test in report["tests"] if test["scope"] == "pair" and test["op"] == "init"]
    rails = [(*(member["device"] for member in test["members"]), test["outcome"]) for test in met]
    assert {one for one, other, outcome in rails if one == other and outcome != "pass"} == {5}


def test_a_dead_host_is_named_and_the_other_is_tested_without_it(lab: LabHandle, broken: Callable[..., None]) -> None:
    broken("host-dead")
    report = probe(lab, "--quick")
    assert ("node02", None) in named(report, "HST101")
    assert {host for host, _ in named(report, "PRB101")} == {"node02"}
    tested = [test for test in report["tests"] if test["op"] != "init"]
    assert tested
    assert {member["host"] for test in tested for member in test["members"]} == {"node01"}
    assert {test["outcome"] for test in tested} == {"pass"}


def agents(lab: LabHandle) -> dict[int, str]:
    """The probe's processes inside the lab's hosts: pid → name."""
    spaces = {Path(f"/proc/{host['pid']}/ns/pid").readlink() for host in lab.status["hosts"]}
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            name = (entry / "comm").read_text().strip()
            if name.startswith("preflight-") and (entry / "ns/pid").readlink() in spaces:
                found[int(entry.name)] = name
        except OSError:
            continue  # no process, or one that has just ended
    return found


def left_after(seconds: float, lab: LabHandle) -> dict[int, str]:
    until = time.monotonic() + seconds
    while agents(lab) and time.monotonic() < until:
        time.sleep(0.1)
    return agents(lab)


def ranks(lab: LabHandle) -> list[int]:
    return [pid for pid, name in agents(lab).items() if name.startswith("preflight-r")]


@contextmanager
def running(lab: LabHandle, count: int = 16) -> Iterator[subprocess.Popen[bytes]]:
    """A probe, when its ranks are there."""
    command = [sys.executable, "-m", "preflight", "probe", "--inventory", str(lab.inventory), "--sizes", "8,64M"]
    controller = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        until = time.monotonic() + 60
        while len(ranks(lab)) < count:
            assert time.monotonic() < until
            assert controller.poll() is None
            time.sleep(0.05)
        yield controller
    finally:
        controller.kill()
        controller.wait()


def test_hosts_that_somebody_else_probes_are_left_out_with_his_name(lab: LabHandle) -> None:
    with running(lab):
        os.kill(ranks(lab)[0], signal.SIGSTOP)  # so that it is still there when the other one comes
        report = probe(lab, "--quick")
    assert left_after(30, lab) == {}
    assert (report["verdict"], report["exit"]) == ("unknown", 3)
    assert [left["host"] for left in report["left_out"]] == ["node01", "node02"]
    assert all(left["why"].startswith("this host is being probed by root@") for left in report["left_out"])
    assert {f["outcome"] for f in report["findings"]} <= {"pass", "skip"}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_probe_leaves_nothing_on_the_hosts_after_five_seconds(
    lab: LabHandle, how: signal.Signals
) -> None:
    with running(lab) as controller:
        controller.send_signal(how)
        _, said = controller.communicate(timeout=5)
    assert left_after(5, lab) == {}
    if how is signal.SIGINT:
        assert controller.returncode == 130
        assert said.endswith(b"\npreflight: interrupted\n")


def test_without_anybody_saying_that_the_hosts_are_idle_nothing_is_contacted(lab: LabHandle, tmp_path: Path) -> None:
    modest = tmp_path / "hosts.toml"
    text = lab.inventory.read_text().replace("idle = true", "idle = false")
    for name in ("id_ed25519", "known_hosts"):
        text = text.replace(f'"{name}"', f'"{lab.dir / name}"')
    modest.write_text(text)
    done = preflight("probe", "--inventory", modest, check=False)
    assert done.returncode == 2
    assert "--idle" in done.stderr
