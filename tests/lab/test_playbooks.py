"""The playbooks as an operator runs them: with `fab`, against hosts of the lab."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, MakeLab, preflight

pytestmark = pytest.mark.lab


def fab(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fabric", "-r", str(ROOT / "playbooks"), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, timeout=300
    )


def test_the_tasks_are_listed() -> None:
    done = fab("--list")
    assert done.returncode == 0, done.stderr
    for name in ("bring-up", "device-addresses", "firewall", "ports", "take-back"):
        assert f"  {name} " in done.stdout


def test_bring_up_takes_new_servers_to_a_checked_cluster(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=4, product="atlas-a1")
    shown = fab("bring-up", "--inventory", lab.inventory, "--dry-run")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "~ net.ipv4.ip_local_reserved_ports" in shown.stdout
    assert "$ preflight check" not in shown.stdout
    assert lab.ssh("node01", "cat /proc/sys/net/ipv4/ip_local_reserved_ports").stdout.strip() == ""

    done = fab("bring-up", "--inventory", lab.inventory, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [line for line in done.stdout.splitlines() if line.startswith("$ preflight ")]
    assert [step.split()[2] for step in steps] == [
        "configure-ports",
        "configure-device-ips",
        "configure-firewall",
        "check",
    ]
    for command in ("configure-ports", "configure-device-ips", "configure-firewall"):
        again = preflight(command, "--inventory", lab.inventory, "--dry-run", "--exit-code", check=False)
        assert again.returncode == 0, again.stdout

    done = fab("take-back", "--inventory", lab.inventory, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("$ preflight rollback ") == 3
    assert "node[01-02]: devices 0-3 keep 192.168.100.11/24" in done.stdout
    left = lab.ssh("node01", "cat /proc/sys/net/ipv4/ip_local_reserved_ports; nft list ruleset; ls /etc /etc/sysctl.d")
    assert "60000" not in left.stdout and "preflight" not in left.stdout
    assert "nothing was changed from this machine" in fab("take-back", "--inventory", lab.inventory, "--yes").stdout


def test_a_step_that_fails_ends_the_playbook_with_its_exit_code(tmp_path: Path) -> None:
    done = fab("bring-up", "--inventory", tmp_path / "nowhere.toml", "--yes")
    assert done.returncode == 2
    assert done.stdout.count("$ preflight ") == 1, "the steps after it are not begun"


def test_without_yes_and_without_a_terminal_nothing_is_contacted(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=1, devices=0, product="cpu")
    done = fab("ports", "--inventory", lab.inventory)
    assert done.returncode == 2
    assert "nothing was contacted" in done.stderr
