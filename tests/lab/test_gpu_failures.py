"""Failures of GPU clusters (docs/failures-gpu.md) made on real hosts: what each leads to there, and that it goes with
the fix. There is no GPU: none of these needs one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab
CHECKS = "HST104,HST115"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Two hosts of one rank each, whose inventory leaves the host NIC to the hosts."""
    lab = make_lab(hosts=2, devices=0, product="nvidia", firewall="none")
    text = lab.inventory.read_text(encoding="utf-8")
    for old, new in (('"nvidia"', '"cpu"'), ("\ndevices = 0", "\ndevices = 1"), ('nic = "eth0"\n', ""),
                     ("[probe]", "[probe]\nstep_deadline = 8")):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    lab.inventory.write_text(text, encoding="utf-8")
    return lab


@contextmanager
def made(lab: LabHandle, make: str, fix: str) -> Iterator[None]:
    """On node02."""
    assert not troubled(lab)
    done = lab.ssh("node02", make)
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        done = lab.ssh("node02", fix)
    assert done.returncode == 0, done.stderr
    assert not troubled(lab)


def troubled(lab: LabHandle) -> list[tuple[str, str, str]]:
    """(check, host, summary) of what neither passes nor skips."""
    done = preflight("check", "-i", lab.inventory, "--no-probe", "--only", CHECKS, "-o", "json", check=False)
    findings = json.loads(done.stdout)["findings"]
    return [(f["check"], f["host"], f["summary"]) for f in findings if f["outcome"] not in ("pass", "skip")]


SAVE, BACK = "cp /etc/hosts /tmp/hosts.kept", "cat /tmp/hosts.kept > /etc/hosts"


@pytest.mark.failure("G8")
def test_an_own_name_that_leads_to_the_loopback(lab: LabHandle) -> None:
    with made(lab, f"{SAVE}; sed -i '/node02/d' /etc/hosts; echo 127.0.1.1 node02 >> /etc/hosts", BACK):
        ((check, host, summary),) = troubled(lab)
    assert (check, host) == ("HST104", "node02")
    assert "127.0.1.1" in summary


@pytest.mark.failure("G9")
def test_an_own_name_that_nobody_knows(lab: LabHandle) -> None:
    with made(lab, f"{SAVE}; sed -i '/node02/d' /etc/hosts", BACK):
        ((check, host, summary),) = troubled(lab)
    assert (check, host) == ("HST104", "node02")
    assert "does not resolve" in summary


@pytest.mark.failure("G39")
def test_a_shared_memory_of_the_size_that_docker_gives(lab: LabHandle) -> None:
    with made(lab, "mount -t tmpfs -o size=64m tmpfs /dev/shm", "umount /dev/shm"):
        ((check, host, summary),) = troubled(lab)
    assert (check, host) == ("HST115", "node02")
    assert "64 MiB" in summary


@pytest.mark.failure("G28")
def test_a_way_on_which_large_packets_are_lost(lab: LabHandle) -> None:
    """All but ssh's: small collectives pass, and the first large one stops."""
    rules = ("tcp dport 22 accept", "tcp sport 22 accept", "meta length > 1400 drop")
    hole = "nft add table inet hole; nft add chain inet hole in '{ type filter hook input priority 0; }'"
    drop = "; ".join(f"nft add rule inet hole in '{rule}'" for rule in rules)
    with made(lab, f"{hole}; {drop}", "nft delete table inet hole"):
        probe = ("--scope", "all", "--sizes", "8,16M", "--quick", "-o", "json")
        report = json.loads(preflight("probe", "-i", lab.inventory, *probe, check=False).stdout)
    found = [finding for finding in report["findings"] if finding["outcome"] == "fail"]
    assert {(finding["check"], finding["host"]) for finding in found} == {("PRB101", "node01"), ("PRB101", "node02")}
    assert all("MTU" in finding["cause"] for finding in found)
