"""A lab host's root, writing wherever it can: nothing of it reaches the machine."""

import secrets
import sys
import tempfile
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

OS_RELEASE = Path("/etc/os-release").resolve()
OWN = (
    "/etc",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/share",
    "/usr/local",
    "/usr/local/bin",
    "/opt",
    "/tmp",
    "/run",
    "/home",
)
SHARED = ("/", "/boot", "/srv", "/mnt", "/media", "/var", "/sys/fs/cgroup", str(ROOT), sys.prefix)
FOLDERS = [
    *(*OWN, *SHARED, "/dev", "/dev/shm", "/run/netns", sys.base_prefix),
    *sorted(str(path) for path in Path("/var").iterdir() if path.is_dir()),
]
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Bits of CapBnd: what could reach the machine past its files (capabilities(7)).
DROPPED = {"sys_module": 16, "sys_rawio": 17, "sys_boot": 22, "sys_time": 25, "mknod": 27, "syslog": 34}


@pytest.fixture(scope="module", params=["atlas-a2", "cpu"])
def lab(request: pytest.FixtureRequest, make_lab: MakeLab) -> LabHandle:
    devices = 0 if request.param == "cpu" else 1
    return make_lab(hosts=1, devices=devices, product=request.param, firewall="none")


def test_no_file_of_a_host_appears_on_the_machine(lab: LabHandle) -> None:
    name = f"lab-host-{secrets.token_hex(4)}"
    tries = "; ".join(f"(echo x > '{folder}/{name}') 2> /dev/null && echo '{folder}'" for folder in FOLDERS)
    written = set(lab.ssh("node01", tries).stdout.splitlines())
    assert set(OWN) <= written
    assert not written & set(SHARED)
    reached = [folder for folder in FOLDERS if Path(folder, name).exists()]
    for folder in reached:
        Path(folder, name).unlink()
    assert reached == []


def test_a_change_of_os_release_is_the_hosts_own(lab: LabHandle) -> None:
    before = OS_RELEASE.read_bytes()
    try:
        assert lab.ssh("node01", "echo VERSION_ID=of-a-lab-host >> /etc/os-release").returncode == 0
        assert "VERSION_ID=of-a-lab-host" in lab.ssh("node01", "cat /usr/lib/os-release").stdout
        assert OS_RELEASE.read_bytes() == before
    finally:
        if OS_RELEASE.read_bytes() != before:
            OS_RELEASE.write_bytes(before)


def test_programs_of_a_host_can_be_replaced(lab: LabHandle) -> None:
    before = Path("/usr/bin/true").stat()
    script = "printf '#!/bin/sh\\nexit 7\\n' > /usr/bin/true.new && chmod 755 /usr/bin/true.new && mv /usr/bin/true.new"
    assert lab.ssh("node01", f"{script} /usr/bin/true; /usr/bin/true").returncode == 7
    after = Path("/usr/bin/true").stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)


def test_kernel_settings_of_the_machine_are_not_writable(lab: LabHandle) -> None:
    """By access(2), which knows of read-only mounts; nothing is written. The boot id is a file of the host's."""
    own = ("/proc/[0-9]*", "/proc/self", "/proc/thread-self", "/proc/sys/net", "/sys/bus/pci/devices", BOOT_ID)
    without = " -o ".join(f"-path '{path}'" for path in own)
    command = f"find /sys /proc \\( {without} \\) -prune -o -type f -perm /222 -writable -print 2> /dev/null"
    assert lab.ssh("node01", command, timeout=60).stdout == ""
    assert lab.ssh("node01", "sysctl -qw net.ipv4.ip_local_reserved_ports=29500").returncode == 0


def test_rights_that_reach_past_files_are_dropped(lab: LabHandle) -> None:
    lines = lab.ssh("node01", "cat /proc/self/status /proc/1/status").stdout.splitlines()
    bounds = [int(line.split()[1], 16) for line in lines if line.startswith("CapBnd")]
    assert len(bounds) == 2
    assert [name for name, bit in DROPPED.items() for bound in bounds if bound >> bit & 1] == []
    node = lab.ssh("node01", "mknod /dev/disk b 259 0")
    assert (node.returncode, "not permitted" in node.stderr) == (1, True)


@pytest.mark.parametrize("folder", ["/home", "/opt", "/root"])
def test_a_lab_may_be_where_its_hosts_have_folders_of_their_own(folder: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        lab = LabHandle(Path(place) / "lab")
        lab.lab("up", "--hosts", "1", "--firewall", "none")
        try:
            written = lab.ssh("node01", f"touch {folder}/mine && ls {folder}").stdout.split()
            assert "mine" in written
            assert Path(place).name not in written
            assert not Path(folder, "mine").exists()
        finally:
            lab.lab("down")


@pytest.mark.parametrize("folder", ["/etc", "/usr/src", "/var/lib"])
def test_a_lab_below_an_overlay_of_its_hosts_is_refused(folder: str) -> None:
    done = preflight("lab", "up", "--dir", f"{folder}/preflight-lab", check=False)
    assert (done.returncode, f"cannot use {folder}/preflight-lab" in done.stderr) == (2, True)
    assert not Path(folder, "preflight-lab").exists()
