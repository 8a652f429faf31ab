"""A whole system that really reboots: what preflight keeps is there afterwards, and what it does not keep is gone."""

import subprocess
from pathlib import Path

import pytest

from tests.lab.booted import BootedHost, whole_system
from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

JOB_PORT = 29500
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
LISTEN = f"import socket; s = socket.create_server(('', {JOB_PORT})); s.accept()"
CONNECT = "import socket; socket.create_connection(('{address}', {port}), 2)"


def command(lab: LabHandle, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return preflight(*arguments, "--inventory", lab.inventory, check=False, stdin=subprocess.DEVNULL)


def judged(lab: LabHandle, *checks: str) -> "subprocess.CompletedProcess[str]":
    return command(lab, "check", "--no-probe", *(word for check in checks for word in ("--only", check)))


def reserved(host: BootedHost) -> str:
    return host.place.run("cat", RESERVED).strip()


def boot_id(host: BootedHost) -> str:
    return host.place.run("cat", "/proc/sys/kernel/random/boot_id")


def lets_in(lab: LabHandle, host: BootedHost) -> bool:
    """Whether the other host reaches a job's port on this one: by a connection, not by what a rule says."""
    host.place.run("systemd-run", "--quiet", "--collect", "--unit=job", "python3", "-c", LISTEN)
    host.place.run("sh", "-c", f"until ss -Htln 'sport = {JOB_PORT}' | grep -q .; do sleep 0.02; done")
    try:
        connect = CONNECT.format(address=lab.addresses[host.place.name], port=JOB_PORT)
        return lab.ssh("node02", f'python3 -c "{connect}"').returncode == 0
    finally:
        host.place.run("sh", "-c", "systemctl stop job 2> /dev/null || true")  # it may have ended with the connection


@pytest.mark.parametrize("firewall", ["nftables", "ufw"])
def test_what_was_configured_is_there_after_a_reboot(make_lab: MakeLab, firewall: str) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall=firewall)
    with whole_system(lab, "node01") as host:
        assert not lets_in(lab, host)
        done = command(lab, "configure", "-y")
        assert done.returncode == 0, done.stdout + done.stderr
        first_boot = boot_id(host)

        host.reboot()
        assert boot_id(host) != first_boot
        assert reserved(host) == str(JOB_PORT)
        done = judged(lab, "PRT101", "PRT102", "FWL101", "FWL102")
        assert done.returncode == 0, done.stdout + done.stderr
        assert lets_in(lab, host)
        done = command(lab, "configure", "--dry-run", "--exit-code")
        assert done.returncode == 0, done.stdout


def test_what_is_temporary_is_gone_after_a_reboot(make_lab: MakeLab) -> None:
    """It also shows that a reboot here does take what the kernel holds: no test of this file could fail otherwise."""
    lab = make_lab(hosts=2, devices=0, product="cpu")
    with whole_system(lab, "node01") as host:
        done = command(lab, "configure-ports", "--temporary", "-y")
        assert done.returncode == 0, done.stdout + done.stderr
        assert reserved(host) == str(JOB_PORT)

        host.reboot()
        assert reserved(host) == ""
        done = judged(lab, "PRT101")
        assert done.returncode == 1
        assert "node01: " in done.stdout and "node02: " not in done.stdout, "node02 was not rebooted"


def test_nothing_of_a_host_is_left(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=1, devices=0, product="cpu", firewall="none")
    before = _traces()
    with whole_system(lab, "node01"):
        assert _traces() != before
    assert _traces() == before


def _traces() -> list[str]:
    """What systemd-nspawn could leave on the machine: control groups, mounts, its books."""
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob("**/*preflight*")]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if "/files" in line]
    return sorted([*groups, *mounts, *(str(path) for path in Path("/run/systemd").glob("nspawn/**/*"))])
