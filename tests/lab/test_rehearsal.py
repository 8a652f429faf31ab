"""The port rehearsal over real firewalls, a rule at a time: whom it names, and that the ports are free afterwards."""

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from preflight.checks.engine.registry import All, all_checks
from preflight.inventory import load
from preflight.model.cluster import Cluster
from preflight.model.finding import Finding
from preflight.model.rehearsal import Rehearsal
from preflight.probe import rehearsal
from preflight.probe.rehearsal import RehearsalRequest, rehearse
from preflight.transport import Options, open_transport
from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

INPUT, OPEN = "inet filter input", "ip saddr 198.18.0.0/15 accept"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Three hosts as they come: their firewalls let ssh in, and nothing else."""
    return make_lab(hosts=3, devices=0, product="atlas-a1")


@pytest.fixture(scope="module")
def open_lab(lab: LabHandle) -> LabHandle:
    for host in lab.addresses:
        nft(lab, host, f"insert rule {INPUT} {OPEN}")
    return lab


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one machine an answer comes at once or never."""
    monkeypatch.setattr(rehearsal, "PATIENCE", 0.5)


def nft(lab: LabHandle, host: str, command: str) -> None:
    done = lab.ssh(host, f"nft '{command}'")
    assert done.returncode == 0, done.stderr


@contextmanager
def rule(lab: LabHandle, host: str, text: str, chain: str = INPUT) -> Iterator[None]:
    """A rule in front of all others, for a while."""
    nft(lab, host, f"insert rule {chain} {text}")
    try:
        yield
    finally:
        found = lab.ssh(host, f"nft -a list chain {chain} | sed -n 's/.*# handle //p' | sed -n 2p").stdout
        nft(lab, host, f"delete rule {chain} handle {found.strip()}")


def look(lab: LabHandle, backend: str = "gloo") -> tuple[Cluster, Rehearsal]:
    cluster = load(lab.inventory)
    with closing(open_transport(cluster, Options())) as transport:
        return cluster, rehearse(RehearsalRequest(cluster, cluster.hosts, backend), transport)


def findings(lab: LabHandle, backend: str = "gloo") -> dict[str, Finding]:
    """Host → the one finding about it."""
    cluster, seen = look(lab, backend)
    check = all_checks()["PRB114"]
    found = list(check.function(All(check, cluster, cluster.hosts), seen, {}, {}))
    assert len(found) == len({finding.host for finding in found})
    return {str(finding.host): finding for finding in found}


def of_cpus(lab: LabHandle, setup: str = "") -> Path:
    """An inventory of the same hosts, over gloo."""
    text = lab.inventory.read_text()
    text = re.sub(r"(?m)^setup = .*$", setup, text) if setup else text
    written = lab.dir / "cpus.toml"
    written.write_text(text.replace("atlas-a1", "cpu").replace('backend = "hccl"', 'backend = "gloo"'))
    return written


def test_hosts_as_they_come_are_closed_to_each_other(lab: LabHandle) -> None:
    found = findings(lab)
    assert set(found) == {"node01", "node02", "node03"}
    assert {one.summary.partition(": ")[2] for one in found.values()} == {
        "other hosts cannot connect to any tested port"
    }


@pytest.mark.failure("G7")
def test_configured_for_hccl_the_ports_of_gloo_are_still_closed(lab: LabHandle) -> None:
    preflight("configure-firewall", "--inventory", lab.inventory, "-y")
    assert findings(lab, "hccl") == {}
    found = findings(lab)
    assert set(found) == {"node01", "node02", "node03"}
    assert all("cannot connect to ephemeral ports " in one.summary for one in found.values())
    assert "ip_local_port_range" in found["node01"].remedy


def test_where_no_host_reaches_another_the_probe_waits_for_nobody(lab: LabHandle) -> None:
    """Else every round over several hosts would wait for its deadline, to show what is known."""
    done = preflight("probe", "--inventory", of_cpus(lab), "--quick", "-o", "json", check=False)
    report = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    outcomes = {(test["scope"], test["outcome"]) for test in report["tests"]}
    assert outcomes == {("device", "pass"), ("all", "not_run"), ("pair", "not_run")}
    assert {one["check"] for one in report["findings"] if one["outcome"] == "fail"} == {"PRB114"}
    assert any("tests between hosts were not run" in note for note in report["notes"])


def test_the_probe_tells_it_also_where_torch_is_missing(lab: LabHandle) -> None:
    """gloo's ranks would stop after `peers` and wait for their deadline; here nothing is waited for."""
    for host in lab.addresses:
        assert lab.ssh(host, "mkdir -p /opt/bare && echo 'raise ImportError' > /opt/bare/torch.py").returncode == 0
    bare = of_cpus(lab, 'setup = "export PYTHONPATH=/opt/bare"')
    done = preflight("probe", "--inventory", bare, "-o", "json", check=False)
    report = json.loads(done.stdout)
    assert done.stderr.startswith("port rehearsal: some connections fail")
    named = {(one["host"], one["outcome"]) for one in report["findings"] if one["check"] == "PRB114"}
    assert named == {("node01", "fail"), ("node02", "fail"), ("node03", "fail")}


def test_open_hosts_reach_each_other_and_their_ports_are_free_at_once(open_lab: LabHandle) -> None:
    cluster, seen = look(open_lab)
    assert [visit.blocked for visit in seen.visits] == [()] * 6
    bind = "import socket; [socket.socket().bind(('', p)) for p in (29500, *range(60000, 60032))]"
    for host in cluster.hosts:
        done = open_lab.ssh(host.name, f'python3 -c "{bind}" && ! ss -Htan | grep -E ":(29500|600[0-3][0-9]) "')
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("host", "text", "chain", "summary", "cause"),
    [
        ("node02", "tcp dport 29500 reject with tcp reset", INPUT, "other hosts cannot connect to port 29500 (master)",
         "a firewall on the host or on the path resets the connections (REJECT), although the port is open"),
        ("node02", "tcp dport 60000-60031 reject", INPUT, "other hosts cannot connect to ports 60000-60031 (HCCL)",
         "the host's own firewall rejects the connections"),
        ("node03", "tcp dport 60007 drop", INPUT, "other hosts cannot connect to port 60007 (HCCL)",
         "a firewall on the host or on the path drops the connections"),
        ("node03", "ip saddr {node01} tcp dport 1024-65535 ct state new drop", INPUT,
         "connections from node01 fail. Connections from other hosts succeed",
         "the path between them, or a firewall rule for these senders"),
        ("node01", "ip saddr {node03} tcp dport 1024-65535 drop", INPUT,
         "connections with node03 fail. Connections with other hosts succeed",
         "the path between them, or a firewall rule for these senders"),
        ("node01", "tcp dport 1024-65535 ct state new drop", "inet filter way_out",
         "cannot connect to any of 2 other hosts",
         "the address, a route or the firewall of node01"),
    ],
    ids=["reset", "reject", "one-port", "one-way", "both-ways", "way-out"],
)  # fmt: skip
@pytest.mark.failure("G12")
def test_who_blocks_whom_is_named_once(
    open_lab: LabHandle, host: str, text: str, chain: str, summary: str, cause: str
) -> None:
    if chain != INPUT:
        nft(open_lab, host, f"add chain {chain} {{ type filter hook output priority 0; }}")
        nft(open_lab, host, f"add rule {chain} accept")
    with rule(open_lab, host, text.format(**open_lab.addresses), chain):
        found = findings(open_lab)
    assert [(one.host, one.summary, one.cause) for one in found.values()] == [(host, f"{host}: {summary}", cause)]


@pytest.mark.failure("G14")
def test_a_port_that_is_held_is_named_with_its_process(open_lab: LabHandle) -> None:
    serve = "nohup python3 -m http.server 60003 >/dev/null 2>&1 & echo $!"
    pid = int(open_lab.ssh("node02", serve).stdout)
    try:
        until_up = "for i in $(seq 50); do ss -Htln | grep -q :60003 && exit; sleep 0.1; done; exit 1"
        assert open_lab.ssh("node02", until_up).returncode == 0
        found = findings(open_lab)
    finally:
        open_lab.ssh("node02", f"kill {pid}")
    assert {host: one.summary for host, one in found.items()} == {
        "node02": f"node02: port 60003 (HCCL) is held by python3 (pid {pid})"
    }


@pytest.mark.failure("G13")
def test_a_redirected_port_is_not_taken_for_ours(open_lab: LabHandle) -> None:
    """What a transparent proxy or a stray DNAT does: the connection stands, and another port answers."""
    nft(open_lab, "node02", "add table ip stray")
    nft(open_lab, "node02", "add chain ip stray in { type nat hook prerouting priority -100; }")
    nft(open_lab, "node02", "add rule ip stray in tcp dport 29500 redirect to :60000")
    try:
        (found,) = findings(open_lab).values()
    finally:
        nft(open_lab, "node02", "delete table ip stray")
    assert (found.host, found.found) == ("node02", "29500: another program answered")
