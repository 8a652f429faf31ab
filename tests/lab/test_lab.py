"""The lab itself: it comes up, its faults are real and reversible, it goes down without a trace."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.inventory import load
from preflight.lab import lifecycle, state, vendor
from preflight.lab.addresses import SET_ENV, Management, choose_network, inventory
from preflight.lab.faults import FAULTS
from preflight.lab.spec import Spec
from preflight.model.errors import UsageError
from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight

# ---- what needs no lab


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"hosts": 0}, "--hosts"),
        ({"hosts": 2, "devices": 17, "product": "atlas-a2"}, "--devices"),
        ({"hosts": 2, "devices": 9, "product": "atlas-a1"}, "at most 8 devices"),
        ({"hosts": 2, "product": "tpu"}, "--product"),
        ({"hosts": 2, "devices": 8, "product": "nvidia"}, "--devices 0"),
        ({"hosts": 2, "firewall": "pf"}, "--firewall must be one of"),
        ({"hosts": 3, "devices": 8, "product": "atlas-a1", "fabric": "direct"}, "exactly two"),
        ({"hosts": 200, "devices": 8, "product": "atlas-a2"}, "ports of the switch"),
        ({"hosts": 2, "user": "a b"}, "--user"),
    ],
)
def test_impossible_labs_are_refused_in_one_sentence(wanted: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        Spec(**wanted)  # type: ignore[arg-type]


def test_without_root_nothing_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["lab", "up", "--dir", str(tmp_path / "lab")]) == 2
    assert not (tmp_path / "lab").exists()


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program, **_: None if program == "ufw" else program)
    with pytest.raises(UsageError, match="apt-get install ufw"):
        lifecycle.require_programs(Spec(hosts=1, firewall="ufw"))


def test_the_inventory_of_a_large_lab_covers_every_host() -> None:
    spec = Spec(hosts=256)
    document = tomllib.loads(inventory(spec, Management(choose_network(256, []))))
    assert [group["name"] for group in document["hosts"]] == ["node[001-245]", "node[246-256]"]
    assert [group["address"] for group in document["hosts"]] == ["198.18.0.[11-255]", "198.18.1.[0-10]"]


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"schema": 1}', '{"schema": 1, "spec": {"pets": 2}}'])
def test_a_spoilt_record_of_a_lab_is_called_that(text: str, tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text(text)
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path}/lab.json is not what")):
        state.load(tmp_path)


@pytest.mark.parametrize(
    "spec",
    [
        Spec(hosts=1, devices=8, product="atlas-a1"),
        Spec(hosts=120, devices=8, product="atlas-a1"),
        Spec(hosts=2, devices=8, product="atlas-a1", fabric="direct"),
        Spec(hosts=62, devices=16, product="atlas-a2"),
        Spec(hosts=2, devices=16, product="atlas-a3", fabric="direct"),
        Spec(hosts=500),
    ],
    ids=lambda spec: f"{spec.hosts} x {spec.devices} {spec.product} {spec.fabric}",
)
def test_the_inventory_of_the_largest_labs_is_one_that_preflight_takes(spec: Spec, tmp_path: Path) -> None:
    for name in ("id_ed25519", "known_hosts"):
        (tmp_path / name).touch()
    file = tmp_path / "hosts.toml"
    file.write_text(inventory(spec, Management(choose_network(spec.hosts, []))))
    cluster = load(file)
    assert [host.name for host in cluster.hosts] == spec.host_names
    assert {len(host.devices) for host in cluster.hosts} == {spec.devices}


def test_a_direct_fabric_has_no_gateway() -> None:
    spec = Spec(hosts=2, devices=8, product="atlas-a2", fabric="direct")
    document = tomllib.loads(inventory(spec, Management(choose_network(2, []))))
    assert document["device_addresses"] == {
        "plan": "one-subnet",
        "subnet": "192.168.100.0/22",
        "first": "192.168.100.11",
    }


# ---- up and down


def _lab_id(place: Path) -> str:
    return str(json.loads((place / "lab.json").read_text())["id"])


def _traces(lab_id: str, place: Path) -> list[str]:
    """Everything of one lab that the machine shows; other labs may come and go at the same time."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    initial = [str(entry) for entry in Path("/proc").glob("[0-9]*") if str(place) in _command_line(entry)]
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    namespaces = [str(path) for path in Path("/run/netns").glob("*")]
    named = [name for name in (*namespaces, *links, *mounts) if f"preflight-{lab_id}" in name]
    return [*named, *initial, *map(str, place.glob("*")), *([str(place)] if place.exists() else [])]


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.lab
@pytest.mark.usefixtures("make_lab")  # for its look at root
def test_a_lab_comes_up_says_what_it_is_and_leaves_nothing(tmp_path: Path) -> None:
    lab = LabHandle(tmp_path / "lab")
    lab.lab("up", "--hosts", "2", "--devices", "2", "--product", "atlas-a2", "--firewall", "none")
    status = lab.status
    assert status["schema"] == 1
    assert "stand-ins" in status["stand_ins"]
    first = status["hosts"][0]
    assert (first["name"], first["port"], first["user"], first["up"]) == ("node01", 22, "root", True)
    assert [device["index"] for device in first["devices"]] == [0, 1]
    assert first["devices"][0]["address"] is None
    assert Path("/run/netns", first["devices"][0]["netns"]).exists()
    assert Path(f"/proc/{first['pid']}").exists()

    answer = lab.ssh(
        "node01", "hostname; cat /etc/machine-id; sysctl -n net.ipv4.ip_local_reserved_ports; stat -c %s /etc/hccn.conf"
    )
    assert answer.stdout.splitlines()[0] == "node01"
    assert re.fullmatch("[0-9a-f]{32}", answer.stdout.splitlines()[1])
    assert answer.stdout.splitlines()[-1] == "0", "the driver's installation leaves an empty hccn.conf"
    assert lab.ssh("node02", "ls " + str(lab.dir)).stdout == ""

    again = lab.lab("up", check=False)
    assert (again.returncode, "already" in again.stderr) == (2, True)
    assert len(_traces(status["id"], lab.dir)) > 10
    lab.lab("down")
    assert _traces(status["id"], lab.dir) == []
    assert "no lab" in lab.lab("down").stdout


@pytest.mark.lab
@pytest.mark.usefixtures("make_lab")
@pytest.mark.parametrize("namespaces", [1, 10, 39])
def test_down_cleans_up_after_an_up_that_was_killed(tmp_path: Path, namespaces: int) -> None:
    lab = LabHandle(tmp_path / "lab")
    arguments = ["lab", "up", "--hosts", "4", "--devices", "8", "--product", "atlas-a1", "--dir", str(lab.dir)]
    up = subprocess.Popen([sys.executable, "-m", "preflight", *arguments], env={**os.environ, "PYTHONPATH": str(ROOT)})
    while not (lab.dir / "lab.json").exists():
        time.sleep(0.001)
    lab_id = _lab_id(lab.dir)
    while len(list(Path("/run/netns").glob(f"preflight-{lab_id}-*"))) < namespaces and up.poll() is None:
        time.sleep(0.001)
    up.send_signal(signal.SIGKILL)
    up.wait()
    lab.lab("down")
    assert _traces(lab_id, lab.dir) == []


@pytest.mark.lab
@pytest.mark.usefixtures("make_lab")
def test_an_up_that_fails_cleans_up_after_itself(tmp_path: Path) -> None:
    place, seen = tmp_path / "lab", tmp_path / "lab.json"
    fakes = tmp_path / "bin"
    fakes.mkdir()
    (fakes / "ssh-keygen").write_text(f"#!/bin/sh\ncp {place}/lab.json {seen}\necho no entropy >&2\nexit 1\n")
    (fakes / "ssh-keygen").chmod(0o755)
    done = preflight("lab", "up", "--dir", place, check=False, env={"PATH": f"{fakes}:{os.environ['PATH']}"})
    assert done.returncode == 1
    assert "no entropy" in done.stderr
    assert _traces(_lab_id(tmp_path), place) == []


@pytest.mark.lab
@pytest.mark.usefixtures("make_lab")
@pytest.mark.parametrize("size", ["4k", "64k"])
def test_a_full_disk_fails_in_one_sentence_and_no_file_is_left(tmp_path: Path, size: str) -> None:
    place = tmp_path / "lab"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
    try:
        done = preflight("lab", "up", "--hosts", "3", "--firewall", "none", "--dir", place, check=False)
        assert done.returncode == 1
        assert re.fullmatch(r"preflight: .*No space left on device.*\n", done.stderr), done.stderr
        assert list(place.iterdir()) == []
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.lab
@pytest.mark.usefixtures("make_lab")
def test_a_place_where_no_directory_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = preflight("lab", "up", "--dir", tmp_path / "file", check=False)
    assert done.returncode == 2
    assert f"cannot live in {tmp_path}/file: File exists." in done.stderr
    assert "there is no lab" in preflight("lab", "status", "--dir", tmp_path / "file", check=False).stderr


@pytest.mark.lab
def test_two_labs_at_once_do_not_meet(make_lab: MakeLab) -> None:
    labs = [make_lab(hosts=1, devices=0, product="cpu", firewall="none") for _ in range(2)]
    networks = [tomllib.loads(lab.inventory.read_text())["cluster"]["cidrs"] for lab in labs]
    assert networks[0] != networks[1]
    assert [lab.ssh("node01", "hostname").stdout for lab in labs] == ["node01\n", "node01\n"]
    other = labs[1].addresses["node01"]
    assert "unreachable" in labs[0].ssh("node01", f"ping -c1 -W1 {other}").stderr.lower()


@pytest.mark.lab
def test_ufw_blocks_what_is_not_ssh(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="ufw", user="operator")
    address = lab.addresses["node02"]
    command = lab.ssh_command("node01", "sudo ufw status")
    command[-2] = command[-2].replace("root@", "operator@")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Status: active" in done.stdout
    assert _connects(lab, "node01", address, 22)
    assert not _connects(lab, "node01", address, 29500)


def _connects(lab: LabHandle, host: str, address: str, port: int) -> bool:
    """Whether the port answers at all: an open port and a refusal both do, a firewall that drops does not."""
    program = f"timeout 1 bash -c 'echo > /dev/tcp/{address}/{port}' 2>/dev/null; test $? != 124"
    return lab.ssh(host, program).returncode == 0


# ---- hccn_tool


@pytest.fixture(scope="module")
def fresh(make_lab: MakeLab) -> LabHandle:
    """Two hosts with two devices each, as they come up."""
    return make_lab(hosts=2, devices=2)


@pytest.mark.lab
@pytest.mark.parametrize(
    ("command", "stdout", "stderr", "code"),
    [
        ("-i 1 -ip -g", "", "", 0),
        ("-i 1 -gateway -g", "", "Get gateway failed, because no gateway was preset there!\n", 2),
        ("-i 1 -net_health -g", "net health status: Init\n", "", 0),
        ("-i 1 -link -g", "link status: UP\n", "", 0),
        ("-i 1 -process -g", "device hccp process: not exist\n", "", 0),
        ("-i 1 -cfg status", "config status:NONE\n", "", 0),
        ("-i 1 -ip -s address 192.168.2.9 netmask 255.255.255.0", "", "The ip address configured is conflicted!\n", 7),
        ("-i 1 -ip -s address 192.168.9.0 netmask 255.255.255.0", "", "Inconsistent address and mask!\n", 34),
        ("-i 1 -ip -s address 192.168.9.255 netmask 255.255.255.0", "", "Can not config broadcast address!\n", 37),
        ("-i 1 -ip -s address 192.168.9 netmask 255.255.255.0", "", "The ip address you configured is invalid!\n", 6),
        (
            "-i 1 -mtu -s 1400",
            "hccn_tool -i devid -mtu\n   [-s]        : set size %d\n   [-g]        : get mtu cfg\n",
            "The total count of input parameters is wrong!\n",
            4,
        ),
        (
            "-i 1 -gateway -s gateway 192.168.9.1",
            "",
            "Unable to configure gateway, because ip is not configured!\n",
            26,
        ),
        ("-i 7 -ip -g", "", "The device is not exist!\n", 4),
        ("-i x -ip -g", "", "Get invalid device id.\n", 4),
    ],
)
def test_hccn_tool_answers_like_the_real_one(
    fresh: LabHandle, command: str, stdout: str, stderr: str, code: int
) -> None:
    done = fresh.ssh("node02", f"hccn_tool {command}")
    assert (done.stdout, done.stderr, done.returncode) == (stdout, stderr, code)


@pytest.mark.lab
def test_hccn_tool_turns_a_second_writer_away(fresh: LabHandle) -> None:
    hold = "flock /run/preflight-lab/hccn_tool.lock"
    done = fresh.ssh("node02", f"{hold} hccn_tool -i 1 -netdetect -s address 192.168.9.9")
    assert (done.stdout, done.stderr, done.returncode) == ("hccn_tool is busy, please try again.\n", "", 11)


@pytest.mark.lab
def test_hccn_tool_is_for_root(fresh: LabHandle) -> None:
    done = fresh.ssh("node02", "setpriv --reuid 65534 hccn_tool -i 1 -tls -s enable 0")
    assert (done.stderr, done.returncode) == ("permission denied: pls check this cmd run permission.\n", 12)


# ---- an A1 lab with addresses: pings, faults, collectives


@pytest.fixture(scope="module")
def configured(make_lab: MakeLab) -> LabHandle:
    """Two hosts with two devices each, which have the addresses of the plan."""
    lab = make_lab(hosts=2, devices=2, firewall="none")
    lab.configure_devices()
    return lab


@pytest.mark.lab
def test_a_set_address_is_real_and_written_down(configured: LabHandle) -> None:
    said = configured.ssh("node02", "hccn_tool -i 1 -ip -g; hccn_tool -i 1 -gateway -g; grep _1= /etc/hccn.conf").stdout
    assert said.splitlines() == [
        "ipaddr:192.168.101.13",
        "netmask:255.255.255.0",
        "default gateway:192.168.101.1, Iface:eth1",
        "address_1=192.168.101.13",
        "netmask_1=255.255.255.0",
        "gateway_1=192.168.101.1",
        "netdetect_1=192.168.101.1",
    ]
    device = configured.status["hosts"][1]["devices"][1]
    shown = subprocess.run(
        ["ip", "-n", device["netns"], "-br", "-4", "addr"], capture_output=True, text=True, check=True
    )
    assert "192.168.101.13/24" in shown.stdout
    assert device["address"] == "192.168.101.13"


@pytest.mark.lab
def test_pings_cross_rails_by_the_gateway_and_look_like_the_real_ones(configured: LabHandle) -> None:
    done = configured.ssh("node01", "hccn_tool -i 0 -ping -g address 192.168.101.13")
    lines = done.stdout.splitlines()
    assert lines[0] == "device 0 PING 192.168.101.13"
    assert all(re.fullmatch(rf"recv seq={n},time=\d+\.\d{{6}}ms", lines[1 + n]) for n in range(3))
    assert lines[4] == "3 packets transmitted, 3 received, 0.00% packet loss"
    assert configured.ssh("node01", "hccn_tool -i 0 -net_health -g").stdout == "net health status: Success\n"


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
    return str(_connects(lab, "node01", lab.addresses["node02"], 60000))


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
def test_a_fault_is_real_and_mend_brings_back_what_was(configured: LabHandle, fault: object) -> None:
    name, scope = fault.name, fault.scope  # type: ignore[attr-defined]
    look, sign = SEEN[name]
    before = look(configured)
    assert not sign or sign not in before
    where = ("--host", "node02", *(("--device", "1") if scope == "device" else ()))
    configured.lab("break", name, *where)
    try:
        during = look(configured)
        assert sign in during
        assert during != before
        assert configured.status["breaks"] == [
            {"name": name, "host": "node02", "device": 1 if scope == "device" else None}
        ]
        assert configured.lab("break", name, *where, check=False).returncode == 2
    finally:
        configured.lab("mend", name)
    assert look(configured) == before
    assert configured.status["breaks"] == []


@pytest.mark.lab
def test_mend_and_break_talk_like_a_person(configured: LabHandle) -> None:
    assert "nothing is broken" in configured.lab("mend").stdout
    typo = configured.lab("break", "link-dwon", check=False)
    assert (typo.returncode, "did you mean link-down?" in typo.stderr) == (2, True)
    stranger = configured.lab("break", "link-down", "--host", "node09", check=False)
    assert (stranger.returncode, "node09" in stranger.stderr) == (2, True)
    faults = json.loads(preflight("lab", "faults", "-o", "json").stdout)
    assert {"name", "scope", "seen_by", "stand_in"} <= set(faults[0])


@pytest.mark.lab
def test_the_inventory_says_how_to_reach_and_probe_the_hosts(configured: LabHandle) -> None:
    document = tomllib.loads(configured.inventory.read_text())
    assert document["hosts"] == [{"name": "node[01-02]", "address": document["hosts"][0]["address"]}]
    assert document["device_addresses"]["plan"] == "four-subnets"
    probe = document["probe"]
    version = "from importlib.metadata import version; print(version('torch_npu'))"
    done = configured.ssh("node01", f'{probe["setup"]}; {probe["python"]} -c "{version}"')
    assert done.stdout == "2.13.0\n"


# ---- the hccl stand-in

RANKS = """
import os, sys
from datetime import timedelta
import torch, torch.distributed as dist
host, hosts, address, mebibytes = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
ranks = 2 * hosts
store = dist.TCPStore(address, 29500, None, host == 0, timedelta(seconds=20), wait_for_workers=False)
for device in range(2):
    if os.fork() == 0:
        import torch_npu
        rank = 2 * host + device
        torch.npu.set_device(device)
        store = dist.TCPStore(address, 29500, None, False, timedelta(seconds=20))
        dist.init_process_group("hccl", store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=20))
        try:
            tensor = torch.full((mebibytes << 18,), rank + 1.0).npu(device)
            dist.all_reduce(tensor)
            print(f"rank {rank} right={bool((tensor == ranks * (ranks + 1) / 2).all())}", flush=True)
            dist.barrier()
        except RuntimeError as error:
            print(f"rank {rank} {error}", flush=True)
        os._exit(0)
for device in range(2):
    os.wait()
"""


def _all_reduce(lab: LabHandle, mebibytes: int = 1, hosts: int = 2) -> str:
    """Run an all_reduce over the two devices of each of the first `hosts` hosts; return what the ranks printed."""
    probe = tomllib.loads(lab.inventory.read_text())["probe"]
    runs = []
    for number, name in enumerate(list(lab.addresses)[:hosts]):
        program = f"{probe['setup']}; TORCH_DEVICE_BACKEND_AUTOLOAD=0 OMP_NUM_THREADS=1 timeout 40 {probe['python']} -"
        command = lab.ssh_command(name, f"{program} {number} {hosts} {lab.addresses['node01']} {mebibytes}")
        pipe = subprocess.PIPE
        run = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        runs.append(run)
        assert run.stdin
        run.stdin.write(RANKS)
        run.stdin.close()
    return "".join(run.stdout.read() for run in runs if run.stdout)


def _sent(netns: str, interface: str) -> int:
    """Bytes that left an interface."""
    show = ["ip", "-n", netns, "-s", "-j", "link", "show", "dev", interface]
    links = json.loads(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    return int(links[0]["stats64"]["tx"]["bytes"])


@pytest.mark.lab
def test_a_collective_crosses_the_device_nics_and_not_the_host_nic(configured: LabHandle) -> None:
    hosts = configured.status["hosts"]
    ways = {f"{host['name']} eth0": (host["netns"], "eth0") for host in hosts}
    ways |= {f"{host['name']}/{d['index']}": (d["netns"], d["interface"]) for host in hosts for d in host["devices"]}
    ways |= {f"{host['name']}/{d['index']} hccs": (d["netns"], "hccs0") for host in hosts for d in host["devices"]}
    before = {name: _sent(*way) for name, way in ways.items()}
    said = _all_reduce(configured, mebibytes=8)
    sent = {name: _sent(*way) - before[name] for name, way in ways.items()}
    assert sorted(said.splitlines()) == [f"rank {rank} right=True" for rank in range(4)]
    assert all(sent[f"{host['name']} eth0"] < 1 << 20 for host in hosts)
    assert sum(sent[f"{host['name']}/{index}"] for host in hosts for index in range(2)) > 8 << 20
    assert sum(sent[f"{host['name']}/{index} hccs"] for host in hosts for index in range(2)) > 8 << 20


@pytest.mark.lab
@pytest.mark.parametrize(
    ("fault", "device", "text"),
    [
        ("tls-off", 1, "EI0016.*All ranks are consistent"),
        ("link-down", 1, "EJ0002.*The network port is down"),
        ("port-taken", None, "EI0019.*port 60000 have already been bound"),
    ],
)
def test_what_stops_hccl_stops_the_stand_in_with_the_same_words(
    configured: LabHandle, fault: str, device: int | None, text: str
) -> None:
    configured.lab("break", fault, "--host", "node02", *(() if device is None else ("--device", str(device))))
    try:
        assert re.search(text, _all_reduce(configured))
    finally:
        configured.lab("mend", fault)


@pytest.mark.lab
def test_a_dead_port_does_not_cut_a_device_from_its_siblings(configured: LabHandle) -> None:
    configured.lab("break", "link-down", "--host", "node01", "--device", "1")
    try:
        assert sorted(_all_reduce(configured, hosts=1).splitlines()) == ["rank 0 right=True", "rank 1 right=True"]
    finally:
        configured.lab("mend")


@pytest.mark.lab
def test_a_device_in_use_shows_and_serves_nobody_else(configured: LabHandle) -> None:
    setup = tomllib.loads(configured.inventory.read_text())["probe"]
    hold = "import torch_npu, torch, time; torch.npu.set_device(1); print(1, flush=True); time.sleep(30)"
    command = f'{setup["setup"]}; exec {setup["python"]} -c "{hold}"'
    holder = subprocess.Popen(configured.ssh_command("node01", command), stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout
        holder.stdout.readline()
        table = configured.ssh("node01", "npu-smi info").stdout
        assert "No running processes found in NPU 0" in table
        assert "No running processes found in NPU 1" not in table
        assert re.search(r"\| 1 +0 +\| \d+ +\| python", table)
    finally:
        holder.terminate()
        holder.wait()
        configured.ssh("node01", "kill $(ls /run/preflight-lab/process/1)")
