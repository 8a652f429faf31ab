"""`preflight configure` against real hosts: what it shows, changes, leaves alone and takes back."""

import base64
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from preflight.inventory import load
from preflight.model.change import Area, Change, Kind, Plan, StepState
from preflight.provision.apply import Way, apply
from preflight.provision.journal import RunJournal
from preflight.provision.rollout import Rollout
from preflight.transport import Options, open_transport
from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
OUR_RULE = 'tcp dport { 29500, 60000-60031 } accept comment "preflight"'


def configure(lab: LabHandle, *arguments: str, area: str = "") -> "subprocess.CompletedProcess[str]":
    command = f"configure-{area}" if area else "configure"
    return preflight(command, "--inventory", lab.inventory, *arguments, check=False, stdin=subprocess.DEVNULL)


def document(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    body: dict[str, Any] = json.loads(done.stdout)
    assert body["exit"] == done.returncode
    return body


def state(lab: LabHandle) -> dict[str, Any]:
    """Everything that configure may change, as facts; without what changes by itself."""
    hosts = json.loads(preflight("facts", "--inventory", lab.inventory, "-o", "json").stdout)["hosts"]
    for facts in hosts.values():
        del facts["sysctl"]["value"]["open_files"]
    return {
        name: {section: facts[section] for section in ("sysctl", "firewall", "hccn", "hccn_conf")}
        for name, facts in hosts.items()
    }


def on(lab: LabHandle, host: str, command: str) -> str:
    done = lab.ssh(host, command)
    assert done.returncode == 0, done.stderr
    return done.stdout


# One fresh lab, walked through from unprovisioned to provisioned: the order of these tests is the story.


@pytest.fixture(scope="module")
def fresh(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=2, devices=8, product="atlas-a1")
    for host in ("node01", "node02"):
        on(lab, host, f"echo 30000,30500-30510 >{RESERVED}")
        on(lab, host, r"printf '# ours, r\351serv\351\nnet.ipv4.ip_local_reserved_ports=40000\n' >/etc/sysctl.conf")
        on(lab, host, "printf 'vm.swappiness = 10' >>/etc/sysctl.conf")
    return lab


def test_a_dry_run_shows_everything_and_changes_nothing(fresh: LabHandle) -> None:
    before = state(fresh)
    done = configure(fresh, "--dry-run", "--exit-code")
    assert done.returncode == 5, done.stderr
    assert configure(fresh, "--dry-run").returncode == 0
    assert state(fresh) == before
    shown = done.stdout
    assert shown.startswith("node[01-02] (2 hosts)\n"), "what both hosts need is shown once"
    assert "  ~ /etc/sysctl.conf\n" in shown
    assert "      -net.ipv4.ip_local_reserved_ports=40000\n" in shown
    assert "      +net.ipv4.ip_local_reserved_ports=29500,30000,30500-30510,40000,60000-60031\n" in shown
    assert "      + ip saddr 198.18." in shown and OUR_RULE in shown
    assert re.search(r"^  node02  7 +192\.168\.\d+\.\d+/24 +192\.168\.\d+\.1 +192\.168\.\d+\.1$", shown, re.MULTILINE)
    assert shown.splitlines()[-1] == f"next: preflight configure --inventory {fresh.inventory}"


def test_without_a_terminal_and_without_yes_nothing_is_contacted(fresh: LabHandle) -> None:
    done = configure(fresh)
    assert done.returncode == 2
    assert "no terminal for the confirmation" in done.stderr
    assert "--dry-run" in done.stderr
    assert "no host was contacted" in done.stderr


def test_whoever_says_no_changes_nothing(fresh: LabHandle) -> None:
    before = state(fresh)
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "preflight", "configure-ports", "--inventory", str(fresh.inventory)],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.write(controller, b"n\n")
    out, err = process.communicate(timeout=60)
    os.close(terminal)
    os.close(controller)
    assert process.returncode == 5
    assert "Apply to 2 hosts? [y/N]" in err
    assert "ip_local_reserved_ports" in out
    assert state(fresh) == before


def test_temporary_reserves_ports_until_the_next_boot_only(fresh: LabHandle) -> None:
    before = state(fresh)
    done = configure(fresh, "-y", "--temporary", area="ports")
    assert done.returncode == 0, done.stdout
    after = state(fresh)
    for name, facts in after.items():
        was = before[name]["sysctl"]["value"]
        assert facts["sysctl"]["value"] == {**was, "reserved_ports": "29500,30000,30500-30510,60000-60031"}
        assert facts["firewall"] == before[name]["firewall"]


def test_ports_are_united_with_what_the_host_and_its_files_reserve(fresh: LabHandle) -> None:
    done = configure(fresh, "-y", area="ports")
    assert done.returncode == 0, done.stdout
    united = "29500,30000,30500-30510,40000,60000-60031"
    for host in ("node01", "node02"):
        assert (
            on(fresh, host, "base64 -w0 /etc/sysctl.conf")
            == base64.b64encode(
                b"# ours, r\xe9serv\xe9\nnet.ipv4.ip_local_reserved_ports=%b\nvm.swappiness = 10" % united.encode()
            ).decode()
        ), "every other byte is kept"
        on(fresh, host, "sysctl -qp 2>/dev/null || true")
        reserved = on(fresh, host, f"cat {RESERVED}").strip()
        assert {"29500", "60000-60031", "30000"} <= set(reserved.split(",")), "sysctl -p undoes nothing"


def test_everything_is_fixed_and_a_second_run_has_nothing_to_do(fresh: LabHandle) -> None:
    done = configure(fresh, "-y", "-o", "json")
    body = document(done)
    assert done.returncode == 0, done.stdout
    assert {change["state"] for change in body["changes"]} == {"done"}
    assert not [finding for finding in body["findings"] if finding["outcome"] in ("fail", "unknown")]
    for host in ("node01", "node02"):
        assert OUR_RULE in on(fresh, host, "nft list chain inet filter input")
        on(fresh, host, "nft -f /etc/nftables.conf")  # as at boot
        assert on(fresh, host, "nft list chain inet filter input").count(OUR_RULE) == 1
    before = state(fresh)
    again = configure(fresh, "-y", "-o", "json")
    assert document(again)["changes"] == []
    assert again.returncode == 0
    assert state(fresh) == before


def test_the_hosts_keep_a_journal_that_only_root_reads(fresh: LabHandle) -> None:
    listing = on(fresh, "node01", "stat -c '%a %U' /var/lib/preflight/journal /var/lib/preflight/journal/*.jsonl")
    assert set(listing.splitlines()) == {"700 root", "600 root"}
    records = [json.loads(line) for line in on(fresh, "node01", "cat /var/lib/preflight/journal/*.jsonl").splitlines()]
    begun = [(record["kind"], record["target"]) for record in records if record["event"] == "begin"]
    assert ("device-address", "7") in begun
    assert ("file", "/etc/sysctl.conf") in begun


def test_what_is_fixed_is_said_and_the_next_command_named(fresh: LabHandle) -> None:
    on(fresh, "node02", f"echo 30000 >{RESERVED}")
    done = configure(fresh, "-y", area="ports")
    assert done.returncode == 0
    assert "1 change made on 1 host\n" in done.stdout
    assert re.search(r"^fixed   PRT101 .*\(node02\)$", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1] == f"next: preflight check --inventory {fresh.inventory}"


def test_a_device_with_a_running_job_is_left_alone(fresh: LabHandle) -> None:
    hold = (
        "mkdir -p /run/preflight-lab/process/3; exec 9>/run/preflight-lab/process/3/$$; flock 9; echo $$; exec sleep 60"
    )
    job = subprocess.Popen(fresh.ssh_command("node01", hold), stdout=subprocess.PIPE, text=True)
    try:
        assert job.stdout
        pid = job.stdout.readline().strip()
        on(fresh, "node01", "hccn_tool -i 3 -netdetect -s address 192.168.103.2")
        done = configure(fresh, "-y", area="device-ips")
        assert done.returncode == 1, "one change is still wanted"
        said = " ".join(done.stdout.split())
        user = f"process sleep (pid {pid}, user root) uses it"
        assert f"! node01: device 3 is left out: {user}" in said
        assert "192.168.103.2" in on(fresh, "node01", "hccn_tool -i 3 -netdetect -g")
    finally:
        on(fresh, "node01", f"kill {pid}")
        job.wait(timeout=10)
    assert configure(fresh, "-y", area="device-ips").returncode == 0
    assert "192.168.103.1" in on(fresh, "node01", "hccn_tool -i 3 -netdetect -g")


def test_a_wrong_mask_is_set_right_without_asking_around_for_the_address(fresh: LabHandle) -> None:
    on(fresh, "node01", "hccn_tool -i 2 -ip -s address 192.168.102.11 netmask 255.255.0.0")
    done = configure(fresh, "-y", area="device-ips")
    assert done.returncode == 0, done.stdout
    assert "192.168.102.11/16 -> 192.168.102.11/24" in done.stdout
    assert "netmask:255.255.255.0" in on(fresh, "node01", "hccn_tool -i 2 -ip -g")


def test_an_address_that_somebody_has_stops_the_plan_by_name(fresh: LabHandle) -> None:
    """node01/2 has node01/6's address, which the inventory wants for node01/6 … that has another one."""
    on(fresh, "node01", "hccn_tool -i 6 -ip -s address 192.168.102.98 netmask 255.255.255.0")
    on(fresh, "node01", "hccn_tool -i 2 -ip -s address 192.168.102.12 netmask 255.255.255.0")
    before = state(fresh)
    try:
        done = configure(fresh, "-y", area="device-ips")
        assert done.returncode == 1
        assert "192.168.102.12, planned for node01/6, is in use: it answers a ping from node02/6" in done.stderr
        assert "device 2 of node01" in done.stderr
        assert state(fresh) == before
    finally:
        on(fresh, "node01", "hccn_tool -i 2 -ip -s address 192.168.102.11 netmask 255.255.255.0")
    assert configure(fresh, "-y", area="device-ips").returncode == 0


def test_a_rule_that_preflight_never_makes_is_refused_by_the_host(fresh: LabHandle) -> None:
    """How a host opens again after a change that cuts ssh is shown on each firewall by test_firewall.py."""
    cluster = load(fresh.inventory)
    before = on(fresh, "node01", "nft list ruleset")
    ours = next(line.strip() for line in before.splitlines() if OUR_RULE in line)
    cut = Change(
        "node01",
        Area.FIREWALL,
        Kind.NFT_RULES,
        "inet filter input",
        ours,
        'tcp dport 22 drop comment "preflight"',
        "FWL101",
    )
    transport = open_transport(cluster, Options())
    try:
        way = Way(cluster.hosts, transport, confirm_seconds=4)
        (result,) = apply(Plan((cut,)), way, RunJournal("cuts-us-off"), Rollout()).results
    finally:
        transport.close()
    assert result.state is StepState.FAILED
    assert "is not a rule of preflight" in result.message
    assert on(fresh, "node01", "nft list ruleset") == before


def test_a_host_that_is_away_is_named_and_the_others_are_configured(fresh: LabHandle) -> None:
    on(fresh, "node01", f"echo 30000 >{RESERVED}")
    broken = fresh.dir / "one-away.toml"
    text = fresh.inventory.read_text()
    broken.write_text(
        text[: text.index("[[hosts]]")]
        + f'[[hosts]]\nname = "node01"\naddress = "{fresh.addresses["node01"]}"\n'
        + '[[hosts]]\nname = "node02"\naddress = "127.0.0.1"\nssh = { port = 1 }\n'
    )
    done = preflight("configure-ports", "--inventory", broken, "-y", check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAIL    HST101" in done.stdout and "node02" in done.stdout
    assert re.search(r"^\d+ changes? made on 1 host$", done.stdout, re.MULTILINE)
    assert "60000-60031" in on(fresh, "node01", f"cat {RESERVED}")


@pytest.fixture(scope="module")
def ufw(make_lab: MakeLab) -> Iterator[LabHandle]:
    yield make_lab(hosts=2, devices=2, product="atlas-a2", firewall="ufw")


def test_ufw_is_opened_for_the_cluster_and_stays_enabled(ufw: LabHandle) -> None:
    done = configure(ufw, "-y")
    assert done.returncode == 0, done.stdout + done.stderr
    for host in ("node01", "node02"):
        status = on(ufw, host, "ufw status")
        assert status.startswith("Status: active")
        assert re.search(r"^29500,60000:60031/tcp +ALLOW +198\.18\.\d+\.0/24 +# preflight$", status, re.MULTILINE)
        assert re.search(r"^22/tcp +ALLOW", status, re.MULTILINE), "what was there is there"
    assert document(configure(ufw, "-y", "-o", "json"))["changes"] == []


def with_firewall_off(lab: LabHandle) -> Path:
    off = lab.dir / "off.toml"
    off.write_text(lab.inventory.read_text().replace('policy = "allow"', 'policy = "off"'))
    return off


def test_ufw_is_switched_off_where_the_inventory_says_so(ufw: LabHandle) -> None:
    off = with_firewall_off(ufw)
    held = preflight("configure-firewall", "--inventory", off, "-y", check=False)
    assert "To include it, add --allow-disturbing." in " ".join(held.stdout.split()), "-y does not imply it"
    assert on(ufw, "node01", "ufw status").startswith("Status: active")
    allowed = ("-y", "--allow-disturbing", "-o", "json")
    done = preflight("configure-firewall", "--inventory", off, *allowed, check=False)
    assert {(change["kind"], change["state"]) for change in document(done)["changes"]} == {("ufw-enabled", "done")}
    assert on(ufw, "node01", "ufw status").startswith("Status: inactive")


def test_a_base_chain_is_deleted_only_when_disturbing_is_allowed(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=1, devices=0, product="cpu")
    off = with_firewall_off(lab)
    held = preflight("configure-firewall", "--inventory", off, "-y", check=False)
    assert held.returncode == 1, held.stdout
    assert "! node01: nftables chain inet filter input: 'present' -> none is left out" in held.stdout
    assert "hook input" in on(lab, "node01", "nft list ruleset")
    done = preflight("configure-firewall", "--inventory", off, "-y", "--allow-disturbing", check=False)
    assert done.returncode == 0, done.stdout
    assert "hook input" not in on(lab, "node01", "nft list ruleset")


TOUCHED = "/etc/sysctl.conf /etc/sysctl.d /etc/nftables.conf /etc/ufw"


@pytest.mark.parametrize("firewall", ["nftables", "ufw"])
def test_a_rollback_brings_back_every_byte(make_lab: MakeLab, firewall: str) -> None:
    lab = make_lab(hosts=1, devices=0, product="cpu", firewall=firewall)
    on(lab, "node01", "echo 'net.ipv4.ip_local_reserved_ports = 40000' >>/etc/sysctl.conf; chmod 640 /etc/sysctl.conf")

    def everything() -> str:
        files = f"find {TOUCHED} -type f -exec stat -c '%n %a %U' {{}} + -exec sha256sum {{}} + | sort"
        return on(lab, "node01", f"{files}; cat {RESERVED}; nft list ruleset | sed 's/packets [0-9]* bytes [0-9]*//'")

    before = everything()
    done = configure(lab, "-y", "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert everything() != before
    run = document(done)["run"]
    back = preflight("rollback", run, "-y", check=False)
    assert back.returncode == 0, back.stdout + back.stderr
    assert everything() == before


def test_wrong_usage_of_a_path_that_is_no_inventory_ends_with_two(tmp_path: Path) -> None:
    done = preflight("configure", "--inventory", tmp_path / "nowhere.toml", "-y", check=False)
    assert done.returncode == 2
    assert "nowhere.toml" in done.stderr
