"""The lab's faults are real, and mend brings back what was."""

import json
import subprocess
import tomllib
from collections.abc import Callable

import pytest

from preflight.lab import vendor
from preflight.lab.addresses import SET_ENV
from preflight.lab.faults import FAULTS
from tests.lab.conftest import LabHandle, preflight


def _on_node02(command: str) -> Callable[[LabHandle], str]:
    return lambda lab: lab.ssh("node02", command).stdout


def _ping_node02(lab: LabHandle) -> str:
    return lab.ssh("node01", "hccn_tool -i 1 -ping -g address 192.168.101.13 | tail -1").stdout


def _sshd_of_node02(lab: LabHandle) -> str:
    command = ["timeout", "1.5", *lab.ssh_command("node02", "hostname")]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _rate_to_node02(lab: LabHandle) -> str:
    device = lab.status["hosts"][1]["devices"][1]
    show = ["tc", "-n", device["fabric_netns"], "qdisc", "show", "dev", device["fabric_interface"]]
    return subprocess.run(show, capture_output=True, text=True, check=True).stdout


def _job_port_of_node02(lab: LabHandle) -> str:
    return str(lab.connects("node01", lab.addresses["node02"], 60000))


def _large_ping_to_node02(lab: LabHandle) -> str:
    return lab.ssh("node01", "hccn_tool -i 1 -ping -g address 192.168.101.13 pkt 1472 | tail -1").stdout


def _who_answers_for_node02(lab: LabHandle) -> str:
    """Who has the address of its device 1, as the same device of node01 has learnt."""
    lab.ssh("node01", "hccn_tool -i 1 -ping -g address 192.168.101.13")
    own = lab.ssh("node02", "hccn_tool -i 1 -mac -g").stdout.split()[-1]
    table = lab.ssh("node01", "hccn_tool -i 1 -arp -g").stdout
    return "its owner" if f"(192.168.101.13) at {own} [ether]  on eth1" in table else f"a stranger: {table}"


# Fault → how it is looked at, and what is seen while it stands.
SEEN: dict[str, tuple[Callable[[LabHandle], str], str]] = {
    "link-down": (_on_node02("hccn_tool -i 1 -link -g"), "link status: DOWN"),
    "wrong-mask": (_on_node02("hccn_tool -i 1 -ip -g"), "netmask:255.255.0.0"),
    "duplicate-address": (_on_node02("hccn_tool -i 1 -ip -g; cat /etc/hccn.conf"), "ipaddr:192.168.101.11"),
    "tls-off": (_on_node02("hccn_tool -i 1 -tls -g; cat /etc/hccn.conf"), "tls switch[0]"),
    "stale-hccn-conf": (_on_node02("cat /etc/hccn.conf"), "address_1=192.168.101.113"),
    "slow-link": (_rate_to_node02, "rate 200Mbit"),
    "packet-loss": (_ping_node02, "3 packets transmitted, 2 received, 33.33% packet loss"),
    "link-flap": (_on_node02("hccn_tool -i 1 -link_stat -g | grep -c DOWN"), "3"),
    "small-mtu-path": (_large_ping_to_node02, "3 packets transmitted, 0 received, 100.00% packet loss"),
    "miswired": (_on_node02("hccn_tool -i 1 -lldp -g"), "leaf01"),
    "arp-duplicate": (_who_answers_for_node02, "a stranger"),
    "optics-weak": (_on_node02("hccn_tool -i 1 -optical -g"), "Rx Power1            : 0.0054 mW"),
    "fec-off": (_on_node02("hccn_tool -i 1 -fec -g"), "no FEC mode"),
    "speed-low": (_on_node02("hccn_tool -i 1 -speed -g"), "Speed: 50000 Mb/s"),
    "pfc-mismatch": (_on_node02("hccn_tool -i 1 -pfc -g"), "0 0 0 1 0 0 0 0"),
    "leftover-qp": (_on_node02("hccn_tool -i 1 -process -g; hccn_tool -i 1 -hw_stats -g"), "mr_active: 1"),
    "card-lost": (_on_node02("npu-smi info -l"), "Total Count                    : 1"),
    "health-alarm": (
        _on_node02("npu-smi info; npu-smi info -t health -i 1 -c 0"),
        "Error Code                     : 80E01801",
    ),
    "hbm-used": (_on_node02("npu-smi info"), "24576/ 32768"),
    "wrong-mapping": (_on_node02(r"npu-smi info -m | tr -s ' \t' ' '"), " 1 0 2 Ascend 910A"),
    "device-file-mode": (_on_node02("stat -c '%a %U:%G' /dev/davinci1"), "600 root:root"),
    "torch-npu-mismatch": (_on_node02(f"cat {vendor.TORCH_NPU_METADATA}"), "Version: 2.1.0"),
    "hccl-variable": (_on_node02(f". {SET_ENV}; env | grep ^HCCL_"), "HCCL_RDMA_RETRY_CNT=9"),
    "port-taken": (_on_node02("ss -Hltn sport = 60000"), ":60000"),
    "firewall-block": (_job_port_of_node02, "False"),
    "switch-acl": (_job_port_of_node02, "False"),
    "host-dead": (_sshd_of_node02, ""),
    "sshd-hung": (_sshd_of_node02, ""),
    "driver-version": (_on_node02("npu-smi info -t board -i 0"), "Software Version               : 22.0.4"),
}


def test_every_fault_is_tested() -> None:
    assert set(SEEN) == {fault.name for fault in FAULTS}


@pytest.mark.lab
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_real_and_mend_brings_back_what_was(two_by_two: LabHandle, fault: object) -> None:
    name, scope = fault.name, fault.scope  # type: ignore[attr-defined]
    look, sign = SEEN[name]
    before = look(two_by_two)
    assert not sign or sign not in before
    where = ("--host", "node02", *(("--device", "1") if scope == "device" else ()))
    two_by_two.lab("break", name, *where)
    try:
        during = look(two_by_two)
        assert sign in during
        assert during != before
        assert two_by_two.status["breaks"] == [
            {"name": name, "host": "node02", "device": 1 if scope == "device" else None}
        ]
        assert two_by_two.lab("break", name, *where, check=False).returncode == 2
    finally:
        two_by_two.lab("mend", name)
    assert look(two_by_two) == before
    assert two_by_two.status["breaks"] == []


@pytest.mark.lab
def test_mend_and_break_talk_like_a_person(two_by_two: LabHandle) -> None:
    assert "nothing is broken" in two_by_two.lab("mend").stdout
    typo = two_by_two.lab("break", "link-dwon", check=False)
    assert (typo.returncode, "did you mean link-down?" in typo.stderr) == (2, True)
    try:
        first = two_by_two.lab("break", "slow-link", "--host", "node01").stdout
        assert first.startswith("slow-link on node01/0 (no --device: the first): ")
    finally:
        two_by_two.lab("mend")
    stranger = two_by_two.lab("break", "link-down", "--host", "node09", check=False)
    assert (stranger.returncode, "node09" in stranger.stderr) == (2, True)
    faults = json.loads(preflight("lab", "faults", "-o", "json").stdout)
    assert {"name", "scope", "seen_by", "stand_in"} <= set(faults[0])


@pytest.mark.lab
def test_the_inventory_says_how_to_reach_and_probe_the_hosts(two_by_two: LabHandle) -> None:
    document = tomllib.loads(two_by_two.inventory.read_text())
    assert document["hosts"] == [{"name": "node[01-02]", "address": document["hosts"][0]["address"]}]
    assert document["device_addresses"]["plan"] == "four-subnets"
    probe = document["probe"]
    version = "from importlib.metadata import version; print(version('torch_npu'))"
    done = two_by_two.ssh("node01", f'{probe["setup"]}; {probe["python"]} -c "{version}"')
    assert done.stdout == "2.13.0\n"
