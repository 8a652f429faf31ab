"""Hangs of real ranks on hosts of a lab, by real firewalls and real mounts: what the probe says of them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

DROPS = 'nft add table inet site; nft add chain inet site in "{{ type filter hook input priority 0; }}"; {rule}'
Probe = Callable[..., dict[str, Any]]


@pytest.fixture
def probe(two_by_two: LabHandle) -> Iterator[Probe]:
    """Run the probe; returns what PRB101 found, which is one thing."""

    def run(*options: str, settings: str = "", backend: str = "hccl") -> dict[str, Any]:
        inventory = two_by_two.inventory
        text = inventory.read_text().replace("[probe]", f"[probe]\nstep_deadline = 6\n{settings}")
        text = text.replace('backend = "hccl"', f'backend = "{backend}"')
        short = inventory.with_name("short.toml")
        short.write_text(text)
        done = preflight("probe", "--inventory", short, "-o", "json", *options, check=False)
        (finding,) = (found for found in json.loads(done.stdout)["findings"] if found["check"] == "PRB101")
        return dict(finding)

    yield run
    for host in ("node01", "node02"):
        two_by_two.ssh(host, "nft delete table inet site")


def test_a_blocked_master_port_names_the_host_behind_it_and_the_place(two_by_two: LabHandle, probe: Probe) -> None:
    rule = "nft add rule inet site in iifname eth0 tcp dport 29500 drop"
    two_by_two.ssh("node01", DROPS.format(rule=rule))
    finding = probe("--scope", "all")
    assert finding["host"] == "node02"
    assert (
        "2 ranks (devices 0-1) failed while connecting to the rendezvous store (last stage: device)"
        in finding["summary"]
    )
    assert "2 other ranks waited at stage peers (2 of 4 ranks present)" in finding["summary"]
    assert finding["found"] == f"no connection to {two_by_two.addresses['node01']}:29500"


def test_closed_ephemeral_ports_stop_gloo_and_are_told_as_such(two_by_two: LabHandle, probe: Probe) -> None:
    """One finding, though all together and both pairs stop. Higher ranks connect to lower ones."""
    rule = "nft add rule inet site in iifname eth0 'tcp flags & (syn|ack) == syn' tcp dport 32768-60999 drop"
    two_by_two.ssh("node01", DROPS.format(rule=rule))
    finding = probe("--scope", "all,pair", "--sizes", "8", backend="gloo")
    assert finding["host"] is None
    assert finding["summary"].startswith("all 4 ranks stopped while creating the communicator (last stage: peers)")
    assert "ephemeral ports" in finding["cause"]
    assert any(f"no answer from {two_by_two.addresses['node01']}:" in line for line in finding["evidence"])


def test_a_directory_that_the_hosts_do_not_share_is_named(probe: Probe) -> None:
    """Every host of a lab has a /tmp of its own."""
    finding = probe("--scope", "all", settings='init = "file"\nshared_dir = "/tmp"\n')
    assert finding["host"] == "node02"
    assert "shared_dir /tmp: this is not the same directory as on rank 0" in finding["summary"]


def test_the_log_of_a_rank_that_failed_is_evidence(two_by_two: LabHandle, probe: Probe) -> None:
    two_by_two.lab("break", "link-down", "--host", "node02", "--device", "1")
    try:
        finding = probe("--scope", "all")
    finally:
        two_by_two.lab("fix", "link-down")
    assert (finding["host"], finding["device"]) == ("node02", 1)
    assert any(line.startswith("node02/1 log: [ERROR] HCCL(") and "EJ0002" in line for line in finding["evidence"])


@pytest.fixture(scope="module")
def four(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=4, devices=1, firewall="none")
    lab.configure_devices()
    return lab


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("stuck-import", ()),  # the default: 60 s
        ("stuck-open", ()),
        ("stuck-collective", ("--seconds", "150")),  # 60 do on an idle machine
    ],
)
def test_the_controller_s_gate_names_a_hung_device(four: LabHandle, fault: str, options: tuple[str, ...]) -> None:
    """With the deadlines that hccl has by default, which are longer than the time that there is.

    The hosts of a lab share two processors, so one of them may be slow as well (PRB118)."""
    nodes = ("--nodes", "node[01-04]")
    four.lab("break", fault, "--host", "node02", "--device", "0")
    try:
        done = preflight("gate", "controller", "--inventory", four.inventory, *nodes, *options, check=False)
    finally:
        four.lab("fix", fault)
    answer = json.loads(done.stdout)
    bad = [(bad["node"], bad["check"]) for bad in answer["bad"] if bad["check"] != "PRB118"]
    assert bad == [("node02", "PRB101")], answer


def test_a_probe_with_a_budget_names_a_hung_device(four: LabHandle) -> None:
    four.lab("break", "stuck-open", "--host", "node02", "--device", "0")
    try:
        done = preflight(
            "probe", "--inventory", four.inventory, "--quick", "--budget", "60s", "-o", "json", check=False
        )
    finally:
        four.lab("fix", "stuck-open")
    failures = [finding for finding in json.loads(done.stdout)["findings"] if finding["outcome"] == "fail"]
    assert [(finding["check"], finding["host"]) for finding in failures] == [("PRB101", "node02")]
    assert done.returncode == 1
