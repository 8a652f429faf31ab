"""`preflight ranktable` against lab hosts: written from their devices, compared, brought to them, taken back."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from preflight.ranktable.read import read
from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

PATH = "/etc/jobs/hccl.json"


def ranktable(lab: LabHandle, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return preflight("ranktable", "--inventory", lab.inventory, *arguments, check=False, stdin=subprocess.DEVNULL)


def on(lab: LabHandle, host: str, command: str) -> str:
    done = lab.ssh(host, command)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=2, devices=8, product="atlas-a2", firewall="none")
    assert preflight("configure-device-ips", "--inventory", lab.inventory, "-y").returncode == 0
    return lab


@pytest.fixture(scope="module")
def table(lab: LabHandle) -> Path:
    """The table of the lab as it came up."""
    path = lab.dir / "hccl.json"
    done = ranktable(lab, "-o", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{path}: version 1.0, 2 servers, 16 ranks",
        f"next: preflight ranktable --check {path} --inventory {lab.inventory}",
    ]
    return path


def test_what_is_written_breaks_no_rule_and_is_what_the_devices_have(lab: LabHandle, table: Path) -> None:
    found = read(table.read_text()).table
    assert found is not None
    assert [server.id for server in found.servers] == sorted(lab.addresses.values())
    own = on(lab, "node02", "hccn_tool -i 3 -ip -g").splitlines()[0].partition(":")[2]
    assert found.servers[1].devices[3].device_ip == own
    done = ranktable(lab, "--check", table)
    assert (done.returncode, done.stderr) == (0, "")
    assert "The table is valid and agrees with the hosts." in done.stdout


def test_another_address_on_a_device_is_named_with_both_values(lab: LabHandle, table: Path, tmp_path: Path) -> None:
    other = "netmask 255.255.252.0"
    on(lab, "node02", f"hccn_tool -i 3 -ip -s address 192.168.100.99 {other}")
    try:
        done = ranktable(lab, "--check", table, "-o", "json")
        assert done.returncode == 1
        [problem] = json.loads(done.stdout)["problems"]
        address = lab.addresses["node02"]
        assert problem["text"] == (
            f"rank 11 (server {address}, device 3): "
            "the table has device_ip 192.168.100.22, but node02 has 192.168.100.99"
        )
        written = ranktable(lab, "-o", tmp_path / "as-it-is.json")
        assert written.returncode == 1, "that it is not as planned is said"
        assert "! node02: device 3 has 192.168.100.99, but the inventory plans 192.168.100.22" in written.stderr
        assert ranktable(lab, "--check", tmp_path / "as-it-is.json").returncode == 0
        pushed = ranktable(lab, "--push", PATH, "-y")
        assert (pushed.returncode, "nothing was pushed" in pushed.stderr) == (1, True)
    finally:
        on(lab, "node02", f"hccn_tool -i 3 -ip -s address 192.168.100.22 {other}")


def test_one_table_is_brought_to_every_host_and_taken_back(lab: LabHandle, table: Path) -> None:
    digest = hashlib.sha256(table.read_bytes()).hexdigest()
    done = ranktable(lab, "--push", PATH, "-y")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"sha256 {digest} on node[01-02]" in done.stdout
    assert f"On each host, set: export RANK_TABLE_FILE={PATH}" in done.stdout
    for host in lab.addresses:
        assert on(lab, host, f"sha256sum {PATH}").split()[0] == digest
    jobs = lab.inventory.with_name("jobs.toml")  # whose environment names the table
    setup = f"export RANK_TABLE_FILE={PATH}; "
    jobs.write_text(lab.inventory.read_text().replace('setup = "', f'setup = "{setup}'))
    same = preflight("ranktable", "-i", jobs, "--check", table, check=False)
    assert (same.returncode, "The table is valid and agrees with the hosts." in same.stdout) == (0, True), same.stdout
    on(lab, "node02", f"echo >> {PATH}")
    other = preflight("ranktable", "-i", jobs, "--check", table, check=False)
    assert other.returncode == 1
    assert f"node02: RANK_TABLE_FILE={PATH} is a different table" in " ".join(other.stdout.split())
    assert f"next: preflight ranktable --inventory {jobs} --push PATH" in other.stdout
    on(lab, "node02", f"sed -i '$d' {PATH}")
    again = ranktable(lab, "--push", PATH, "-y")
    assert (again.returncode, "every host is up to date" in again.stdout) == (0, True)
    run = next(line.split()[1].rstrip(";") for line in done.stdout.splitlines() if line.startswith("run "))
    assert preflight("rollback", run, "-y", stdin=subprocess.DEVNULL).returncode == 0
    for host in lab.addresses:
        assert on(lab, host, f"test -e {PATH} || echo gone") == "gone\n"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (f"ln -s /etc/hostname {PATH}", f"node02: {PATH} is a link, which HCCL rejects"),
        (f"echo mine >{PATH}", f"node02: {PATH} exists and is not a rank table. To overwrite it, add --force."),
        (f"mkdir {PATH}", f"node02: {PATH} is a folder"),
    ],
)
def test_where_something_else_stands_no_host_gets_it(lab: LabHandle, make: str, says: str) -> None:
    on(lab, "node02", f"mkdir -p /etc/jobs; rm -rf {PATH}; {make}")
    before = on(lab, "node02", f"ls -l {PATH}")
    done = ranktable(lab, "--push", PATH, "-y")
    assert (done.returncode, says in done.stderr) == (1, True), done.stderr
    assert "nothing was pushed to any host" in done.stderr
    assert on(lab, "node01", f"test -e {PATH} || echo none") == "none\n"
    assert on(lab, "node02", f"ls -l {PATH}") == before
    on(lab, "node02", f"rm -rf {PATH}")


def test_servers_of_a_super_pod_have_the_super_device_ids_that_npu_smi_tells(make_lab: MakeLab, tmp_path: Path) -> None:
    a3 = make_lab(hosts=2, devices=4, product="atlas-a3", firewall="none")
    assert preflight("configure-device-ips", "--inventory", a3.inventory, "-y").returncode == 0
    path = tmp_path / "hccl.json"
    done = ranktable(a3, "-o", path, "--format", "1.2")
    assert (done.returncode, done.stderr) == (0, "")
    found = read(path.read_text()).table
    assert found is not None
    assert found.version == "1.2"
    told = on(a3, "node02", "npu-smi info -t spod-info -i 1 -c 1").splitlines()[0].rpartition(":")[2].strip()
    assert found.servers[1].devices[3].super_device_id == told
    assert ranktable(a3, "--check", path).returncode == 0
    path.write_text(path.read_text().replace(told, "77"))
    changed = " ".join(ranktable(a3, "--check", path).stdout.split())
    address = a3.addresses["node02"]
    says = f"rank 7 (server {address}, device 3): the table has super_device_id 77, but node02 has {told} [sdid]"
    assert says in changed
