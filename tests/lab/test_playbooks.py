"""The playbooks as an operator runs them, on hosts of the lab: scripts as docs/playbooks.md shows them, and tasks."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight
from tests.lab.pages import Step, steps
from tests.lab.sites import SITES, Site, lab_of, seated

pytestmark = pytest.mark.lab

PLAYBOOKS = ROOT / "playbooks"
PAGE = (ROOT / "docs" / "playbooks.md").read_text()
# All that a playbook may change on a host; a file counts as changed when it was written, also with the same bytes.
STATE = """
sysctl -n net.ipv4.ip_local_reserved_ports
nft --stateless list ruleset
for device in $(seq 0 7); do hccn_tool -i $device -ip -g; hccn_tool -i $device -gateway -g; done 2> /dev/null
find /etc /var/lib/preflight/journal -type f -printf '%p %s %T@\\n' | sort
"""


@dataclass(frozen=True)
class Scenario:
    """`ready`: what the site has done before, at its desk. `breaks`: what befalls it after the good runs."""

    site: Site
    breaks: Callable[[LabHandle], object]
    ready: str = "true"
    changes_hosts: bool = True


def fault(name: str, host: str, device: int) -> Callable[[LabHandle], object]:
    return lambda lab: lab.lab("break", name, "--host", host, "--device", str(device))


def on_host(host: str, command: str) -> Callable[[LabHandle], object]:
    return lambda lab: lab.ssh(host, command)


# Two devices a server instead of eight: the guides have all eight.
TWO = {f'product = "{it}"': f'product = "{it}"\ndevices = 2' for it in ("atlas-a1", "atlas-a2")}
TWO_GPUS = {"devices=8": "devices=2", "[probe]": '[probe]\nbackend = "gloo"'}
FIBRES = ((102, 101), (100, 100), (102, 100), (102, 111), (100, 110), (102, 110))  # of devices 2 to 7 of both servers
TWO_FIBRES = {f'    "192.168.{it}.{last}/24", "192.168.{it + 1}.{last}/24",\n': "" for it, last in FIBRES}
UPLOAD = "for host in {}; do scp -q toy_train.py $host:; done"

SCENARIOS = {
    "atlas-single-server": Scenario(
        replace(SITES["one-server"], devices=2, edited=TWO),
        fault("device-dead", "node01", 1),
    ),
    "mindspore-rank-table": Scenario(
        replace(SITES["mindspore"], devices=2, edited=TWO),
        fault("duplicate-address", "node02", 1),
        UPLOAD.format("node01 node02"),
    ),
    "gpu-mpirun": Scenario(
        replace(SITES["perseus"], devices=2, edited=TWO_GPUS),
        on_host("node01", "rm .ssh/id_ed25519"),
        UPLOAD.format("192.168.0.1 192.168.0.2"),
    ),
    "atlas-direct-fibre": Scenario(
        replace(SITES["two-servers"], devices=2, edited=TWO | TWO_FIBRES),
        fault("link-down", "node02", 1),
        UPLOAD.format("node01 node02"),
    ),
    "every-collective": Scenario(
        Site("every-collective", ("192.168.1.21", "192.168.1.22"), "atlas-a2", devices=2),
        on_host("node01", "setsid python3 -m http.server 29500 > /dev/null 2>&1 < /dev/null &"),
        "preflight configure --yes",
        changes_hosts=False,
    ),
}


@pytest.fixture
def shared() -> Iterator[str]:
    """A folder that all hosts of a lab see. `mount_shared` makes it writable there, as a shared file system is."""
    with tempfile.TemporaryDirectory(dir="/srv") as folder:
        yield folder


def mount_shared(lab: LabHandle, folder: str) -> None:
    for host in lab.addresses:
        mounted = lab.ssh(host, f"mount --bind {folder} {folder} && mount -o remount,bind,rw {folder}")
        assert mounted.returncode == 0, mounted.stderr


def state(lab: LabHandle) -> dict[str, str]:
    seen = {host: lab.ssh(host, STATE).stdout for host in lab.addresses}
    assert all("60000-60031" in text or "29500" in text for text in seen.values())  # each host was read
    return seen


def test_every_script_has_a_scenario() -> None:
    assert SCENARIOS.keys() == {path.stem for path in PLAYBOOKS.glob("*.sh")} - {"demo"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_playbook_proves_its_site_changes_nothing_anew_and_stops_at_a_fault_by_name(
    make_lab: MakeLab, tmp_path: Path, shared: str, name: str
) -> None:
    scenario = SCENARIOS[name]
    site = replace(scenario.site, edited={**scenario.site.edited, "/mnt/nfs": shared})
    well, broken = (step for step in steps(PAGE) if step.command.startswith(f"bash {name}.sh"))
    lab = lab_of(make_lab, site)
    mount_shared(lab, shared)
    desk = seated(lab, site, tmp_path)
    desk.write(f"{name}.sh", site.here((PLAYBOOKS / f"{name}.sh").read_text()))
    desk.run(Step(0, scenario.ready, 0, "…"))

    if scenario.changes_hosts:
        desk.run(well)
    before = state(lab)
    desk.run(well)
    assert state(lab) == before

    desk.run(Step(0, "rm -rf start", 0, ""))
    scenario.breaks(lab)
    before = state(lab)
    desk.run(broken)
    assert state(lab) == before
    desk.run(Step(0, "test ! -e start", 0, ""))  # no job was begun
    lab.lab("down")


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
    assert "no host was contacted" in done.stderr
