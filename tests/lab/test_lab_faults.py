"""The lab's faults are real, and fix brings back what was."""

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable

import pytest

from preflight.lab import cgroups, kernel, vendor
from preflight.lab.addresses import SET_ENV
from preflight.lab.faults import FAULTS
from preflight.lab.faults.fault import Fault
from preflight.lab.kernel import Process
from tests.lab.conftest import LabHandle, MakeLab, preflight


def _on_node02(command: str) -> Callable[[LabHandle], str]:
    return lambda lab: lab.ssh("node02", command).stdout


def _ping_node02(lab: LabHandle) -> str:
    return lab.ssh("node01", "hccn_tool -i 1 -ping -g address 192.168.101.13 | tail -1").stdout


def _ping_from_node02(lab: LabHandle) -> str:
    return lab.ssh("node02", "hccn_tool -i 1 -ping -g address 192.168.101.11 | tail -1").stdout


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


def _rate_out_of_node02(lab: LabHandle) -> str:
    device = lab.status["hosts"][1]["devices"][1]
    return _run("tc", "-n", device["netns"], "qdisc", "show", "dev", device["interface"])


def _rate_of_uplink(lab: LabHandle) -> str:
    return _run("tc", "-n", lab.status["hosts"][0]["devices"][0]["fabric_netns"], "qdisc", "show", "dev", "up02")


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _ping_a_lot(lab: LabHandle) -> str:
    """Whether any of 300 is lost; that 10 % spare them all does not happen."""
    netns = lab.status["hosts"][0]["devices"][1]["netns"]
    ping = ("ping", "-q", "-c", "300", "-i", "0.002", "-W", "1", "192.168.101.13")
    done = subprocess.run(["ip", "netns", "exec", netns, *ping], capture_output=True, text=True, check=False)
    return "none is lost" if " 0% packet loss" in done.stdout else "some are lost"


def _ping_sibling(lab: LabHandle) -> str:
    netns = lab.status["hosts"][1]["devices"][1]["netns"]
    ping = ("ping", "-q", "-c", "1", "-W", "1", "192.168.100.13")
    done = subprocess.run(["ip", "netns", "exec", netns, *ping], capture_output=True, text=True, check=False)
    return done.stdout.partition("received")[0].splitlines()[-1]


# A rank by itself: how far it comes, and what it computes.
RANK = """
import os, sys, threading, time
def watch():
    for _ in range(20):  # whoever is stuck is there each time
        while "get_stuck" not in names():
            time.sleep(0.05)
        time.sleep(0.05)
    print("stuck", flush=True)
    os._exit(0)
def names():
    frame, found = sys._current_frames()[main], []
    while frame:
        found.append(frame.f_code.co_name)
        frame = frame.f_back
    return found
main = threading.get_ident()
threading.Thread(target=watch, daemon=True).start()
import torch, torch.distributed as dist
try:
    import torch_npu
    torch.npu.set_device(1)
    print("open", flush=True)
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(1))
    print("connected", flush=True)
    data = torch.ones(1 << 15)
    dist.all_reduce(data)
    print("sum", int(data.sum()) - len(data), flush=True)
    dist.destroy_process_group()
    print("closed", flush=True)
except RuntimeError as error:
    print(error)
"""


def _rank(lab: LabHandle) -> str:
    command = f". {SET_ENV}; LOCAL_RANK=1 {sys.executable} -c {shlex.quote(RANK)}"
    return lab.ssh("node02", command, timeout=60).stdout


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
    "slow-link-out": (_rate_out_of_node02, "rate 200Mbit"),
    "random-loss": (_ping_a_lot, "some are lost"),
    "random-loss-out": (_ping_a_lot, "some are lost"),
    "one-way-drop": (_ping_from_node02, "3 packets transmitted, 0 received, 100.00% packet loss"),
    "hccs-down": (_ping_sibling, "1 packets transmitted, 0 "),
    "partition": (_ping_node02, "3 packets transmitted, 0 received, 100.00% packet loss"),
    "slow-uplink": (_rate_of_uplink, "rate 400Mbit"),
    "stuck-import": (_rank, "stuck\n"),
    "stuck-open": (_rank, "stuck\n"),
    "stuck-connect": (_rank, "open\nstuck\n"),
    "stuck-collective": (_rank, "open\nconnected\nstuck\n"),
    "stuck-close": (_rank, "open\nconnected\nsum 0\nstuck\n"),
    "device-dead": (_rank, "error code is 507033"),
    "wrong-data": (_rank, "sum 1\nclosed\n"),
    "device-busy": (_on_node02("npu-smi info | grep sleep"), "sleep"),
    "wrong-interface": (_on_node02(f". {SET_ENV}; env | grep ^HCCL_; ip -br addr show docker0"), "172.17.0.1/16"),
    "setup-hangs": (_on_node02(f"tail -1 {SET_ENV}"), "sleep 3600"),
    "gpu-lost": (_on_node02("nvidia-smi -q"), "device handle for GPU 0000:20:00.0: Unknown Error"),
    "gpu-ecc": (_on_node02("nvidia-smi -q | tr -s ' '"), "DRAM Uncorrectable : 3"),
    "gpu-row-remap": (_on_node02("nvidia-smi -q | tr -s ' '"), "Pending : Yes"),
    "gpu-nvlink": (_on_node02("nvidia-smi nvlink -s"), "Link 5: <inactive>"),
    "nvidia-smi-hangs": (_on_node02("timeout 1 nvidia-smi -q > /dev/null; echo $?"), "124"),
    "host-overloaded": (_on_node02("cat /proc/self/cgroup; pgrep -xc timeout"), "-node02\n"),
}
WITH_LEAVES = ("partition", "slow-uplink")
OF_GPUS = ("gpu-lost", "gpu-ecc", "gpu-row-remap", "gpu-nvlink", "nvidia-smi-hangs")


@pytest.fixture(scope="module")
def with_leaves(make_lab: MakeLab) -> LabHandle:
    """The same, a leaf for each host."""
    lab = make_lab(hosts=2, devices=2, firewall="none", leaves=2)
    lab.configure_devices()
    return lab


@pytest.fixture(scope="module")
def with_gpus(make_lab: MakeLab) -> LabHandle:
    return make_lab(hosts=2, devices=2, product="nvidia", firewall="none")


@pytest.fixture
def lab(request: pytest.FixtureRequest, fault: Fault) -> LabHandle:
    """One in which the fault can be made."""
    fixture = "with_leaves" if fault.name in WITH_LEAVES else "with_gpus" if fault.name in OF_GPUS else "two_by_two"
    found: LabHandle = request.getfixturevalue(fixture)
    return found


def test_every_fault_is_tested() -> None:
    assert set(SEEN) == {fault.name for fault in FAULTS}


@pytest.mark.lab
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_real_and_fix_brings_back_what_was(lab: LabHandle, fault: Fault) -> None:
    name, scope = fault.name, fault.scope
    look, sign = SEEN[name]
    before = look(lab)
    assert not sign or sign not in before
    where = ("--host", "node02", *(("--device", "1") if scope == "device" else ()))
    lab.lab("break", name, *where)
    try:
        during = look(lab)
        assert sign in during
        assert during != before
        assert lab.status["breaks"] == [{"name": name, "host": "node02", "device": 1 if scope == "device" else None}]
        assert lab.lab("break", name, *where, check=False).returncode == 2
    finally:
        lab.lab("fix", name)
    assert look(lab) == before
    assert lab.status["breaks"] == []


@pytest.mark.lab
def test_where_large_packets_are_dropped_tcp_stands_still(two_by_two: LabHandle) -> None:
    """What fits in small packets arrives, so that ranks meet; what does not, never."""
    assert _sent_to_node02(two_by_two, 1 << 20) == 1 << 20
    two_by_two.lab("break", "small-mtu-path", "--host", "node02", "--device", "1")
    try:
        assert _sent_to_node02(two_by_two, 1000) == 1000
        assert _sent_to_node02(two_by_two, 1 << 20) == 0
    finally:
        two_by_two.lab("fix", "small-mtu-path")
    assert _sent_to_node02(two_by_two, 1 << 20) == 1 << 20


def _sent_to_node02(lab: LabHandle, size: int) -> int:
    """Bytes that arrive of so many, from device 1 to device 1, until 3 s bring none."""
    sender, receiver = (host["devices"][1] for host in lab.status["hosts"])
    with kernel.inside(receiver["netns"]):
        listener = socket.create_server((receiver["address"], 0))
    with listener, kernel.inside(sender["netns"]):
        out = socket.create_connection(listener.getsockname(), 10)
        into, _ = listener.accept()
    arrived = 0
    with out, into, contextlib.suppress(TimeoutError):
        into.settimeout(3)
        threading.Thread(target=_send, args=(out, size), daemon=True).start()
        while arrived < size:
            arrived += len(into.recv(1 << 16))
    return arrived


def _send(out: socket.socket, size: int) -> None:
    with contextlib.suppress(OSError):  # closed by who has waited long enough
        out.sendall(bytes(size))


@pytest.mark.lab
def test_leaves_are_what_lldp_tells_and_neighbours_share_one(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=4, devices=2, product="atlas-a2", firewall="none", leaves=2)
    told = {name: lab.ssh(name, "hccn_tool -i 1 -lldp -g").stdout for name in lab.addresses}
    seen = {name: (_after("System Name TLV\n", text), _after("Ifname: ", text)) for name, text in told.items()}
    assert seen == {
        "node01": ("leaf01", "200GE1/0/2"),
        "node02": ("leaf01", "200GE1/0/4"),
        "node03": ("leaf02", "200GE1/0/2"),
        "node04": ("leaf02", "200GE1/0/4"),
    }
    assert lab.status["leaves"] == 2
    refused = lab.lab("break", "miswired", check=False)
    assert (refused.returncode, "no such two" in refused.stderr) == (2, True)


def _after(key: str, text: str) -> str:
    return text.partition(key)[2].splitlines()[0].strip()


@pytest.mark.lab
def test_fix_and_break_print_one_sentence(two_by_two: LabHandle) -> None:
    assert "nothing is broken" in two_by_two.lab("fix").stdout
    switchless = two_by_two.lab("break", "partition", check=False)
    assert (switchless.returncode, "up --leaves 2" in switchless.stderr) == (2, True)
    typo = two_by_two.lab("break", "link-dwon", check=False)
    assert (typo.returncode, "did you mean link-down?" in typo.stderr) == (2, True)
    try:
        first = two_by_two.lab("break", "slow-link", "--host", "node01").stdout
        assert first.startswith("slow-link on node01/0 (no --device: the first): ")
    finally:
        two_by_two.lab("fix")
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


def test_a_group_whose_processes_are_still_ending_is_removed_when_they_have() -> None:
    group = cgroups.make(f"preflight-test-{os.getpid()}", 10_000, 20_000)
    with subprocess.Popen(["sleep", "0.5"]) as process:
        cgroups.move(Process(process.pid, 0), group)
        threading.Thread(target=process.wait).start()
        cgroups.remove_group(group)
    assert not group.exists()
