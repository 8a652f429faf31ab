"""The lab itself: what it refuses, that it comes up, and goes down without a trace."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.inventory import load
from preflight.lab import lifecycle, state
from preflight.lab.addresses import Management, choose_network, inventory
from preflight.lab.spec import Spec
from preflight.model.errors import UsageError
from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"hosts": 0}, "--hosts"),
        ({"hosts": 2, "devices": 17, "product": "atlas-a2"}, "--devices"),
        ({"hosts": 2, "devices": 9, "product": "atlas-a1"}, "at most 8 devices"),
        ({"hosts": 2, "product": "tpu"}, "--product"),
        ({"hosts": 2, "devices": 8, "product": "cpu"}, "--devices 0"),
        ({"hosts": 2, "devices": 9, "product": "nvidia"}, "at most 8 GPUs"),
        ({"hosts": 2, "devices": 8, "product": "nvidia", "leaves": 2}, "hosts with NPUs"),
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
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path}/lab.json was not written")):
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


def lab_id(place: Path) -> str:
    return str(json.loads((place / "lab.json").read_text())["id"])


def traces(name: str, place: Path) -> list[str]:
    """Everything of one lab that the machine shows; other labs may come and go at the same time."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    initial = [str(entry) for entry in Path("/proc").glob("[0-9]*") if str(place) in _command_line(entry)]
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    namespaces = [str(path) for path in Path("/run/netns").glob("*")]
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob("**/preflight-*")]
    named = [trace for trace in (*namespaces, *links, *mounts, *groups) if f"preflight-{name}" in trace]
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
    lab.lab("break", "host-overloaded")  # which leaves processes and a cgroup to be cleared away
    assert any("cgroup" in trace for trace in traces(status["id"], lab.dir))
    lab.lab("down")
    assert traces(status["id"], lab.dir) == []
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
    name = lab_id(lab.dir)
    while len(list(Path("/run/netns").glob(f"preflight-{name}-*"))) < namespaces and up.poll() is None:
        time.sleep(0.001)
    up.send_signal(signal.SIGKILL)
    up.wait()
    lab.lab("down")
    assert traces(name, lab.dir) == []


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
    assert traces(lab_id(tmp_path), place) == []


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
    assert f"cannot use {tmp_path}/file: File exists." in done.stderr
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
@pytest.mark.usefixtures("make_lab")  # for its look at root
def test_what_preflight_keeps_on_this_machine_is_on_no_host(tmp_path: Path) -> None:
    """In a mount namespace of its own, so that the machine itself gets nothing of it. The lab is put up and taken down
    there: only there are its network namespaces seen by their names."""
    paths = ("/etc/preflight", "/var/lib/preflight", "/usr/local/sbin/preflight-gate", "/usr/local/lib/preflight")
    lab_ = f"{sys.executable} -m preflight lab"
    up = f"{lab_} up --hosts 1 --devices 0 --firewall none --dir {tmp_path}/lab > /dev/null"
    kept = " ".join(paths)
    script = (
        f"cd {tmp_path}; for place in etc var/lib usr/local; do mkdir -p $place/up $place/work; "
        f"mount -t overlay -o lowerdir=/$place,upperdir=$PWD/$place/up,workdir=$PWD/$place/work none /$place; done; "
        f"mkdir -p {kept}; cd {ROOT}; {up}; echo up; read -r _; {lab_} down --dir {tmp_path}/lab > /dev/null"
    )
    command = ["unshare", "--mount", "sh", "-ec", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        lab = LabHandle(tmp_path / "lab")
        try:
            assert lab.ssh("node01", f"ls -d {kept}").stdout == ""
            assert lab.ssh("node01", f"mkdir -p {kept} && ls -d {kept}").stdout.split() == sorted(paths)
        finally:
            process.communicate("\n")
    assert process.returncode == 0
    left = subprocess.run(["pgrep", "-f", f"{tmp_path}/lab/"], stdout=subprocess.PIPE, text=True, check=False).stdout
    assert left == "", "no process of its host is left"


@pytest.mark.lab
def test_ufw_blocks_what_is_not_ssh(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="ufw", user="operator")
    address = lab.addresses["node02"]
    command = lab.ssh_command("node01", "sudo ufw status")
    command[-2] = command[-2].replace("root@", "operator@")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Status: active" in done.stdout
    assert lab.connects("node01", address, 22)
    assert not lab.connects("node01", address, 29500)
