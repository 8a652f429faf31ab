"""Facts of lab hosts, through ssh: what is made with the kernel's own tools is what the facts say."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.lab.tools import replaced

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=2, devices=8, product="atlas-a1")
    lab.configure_devices()
    return lab


def facts(lab: LabHandle, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    done = preflight("facts", "-i", lab.inventory, "-o", "json", *arguments, check=False)
    assert done.returncode == exit_code, done.stdout[-2000:] + done.stderr
    hosts: dict[str, Any] = json.loads(done.stdout)["hosts"]
    return hosts


def device(lab: LabHandle, host: str, index: int) -> dict[str, Any]:
    found: dict[str, Any] = facts(lab, "--limit", host)[host]["hccn"]["value"]["devices"][index]
    return found


def test_every_section_of_a_healthy_host_has_a_value(lab: LabHandle) -> None:
    for host, sections in facts(lab).items():
        assert {name for name, section in sections.items() if "value" not in section} == set(), host
        assert sections["os"]["value"]["hostname"] == host
        first, address = next(iter(lab.addresses.items()))
        assert sections["names"]["value"]["cluster"] == {first: [address]}  # the others resolve as planned
        assert abs(sections["clock"]["value"]["offset"]) <= sections["clock"]["value"]["uncertainty"] < 5
        assert sections["versions"]["value"]["torch_npu"]
        devices = sections["hccn"]["value"]["devices"]
        assert [device["index"] for device in devices] == list(range(8))
        for device in devices:
            assert not any(reading["error"] for reading in device.values() if isinstance(reading, dict)), device
            assert device["link"]["value"] == "UP"
            entries = sections["hccn_conf"]["value"]["entries"]
            assert device["address"]["value"] == entries[f"address_{device['index']}"]


def test_a_basic_look_asks_the_tools_nothing_more(lab: LabHandle) -> None:
    tool = "/usr/local/Ascend/driver/tools/hccn_tool"
    with replaced(lab, "node01", tool, f'echo "$3" >>/tmp/asked; exec {tool}.real "$@"'):
        found = facts(lab, "--limit", "node01", "--basic")["node01"]
        asked = set(lab.ssh("node01", "cat /tmp/asked; rm /tmp/asked").stdout.split())
    assert {name for name, section in found.items() if section == {"skipped": "--basic"}} == {
        "nic", "chips", "device_nodes", "job", "load"
    }  # fmt: skip
    assert asked == {"-cfg", "-link", "-gateway", "-netdetect", "-net_health", "-mtu", "-tls", "-lldp", "-ip"}


@pytest.fixture
def taken(lab: LabHandle) -> Iterator[int]:
    """A port that a process on node01 listens on, and is connected from, to its own ssh server."""
    script = (
        "import socket, time; a = socket.create_server(('', 60003)); b = socket.socket(); b.bind(('', 60005));"
        "b.connect(('127.0.0.1', 22)); print('ready', flush=True); time.sleep(60)"
    )
    command = lab.ssh_command("node01", f'exec python3 -c "{script}"')
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield 60003
        lab.ssh("node01", "kill $(ss -Htlnp 'sport = :60003' | sed 's/.*pid=\\([0-9]*\\).*/\\1/')")
        process.kill()


def test_a_listener_and_an_outgoing_connection_on_job_ports_are_named_with_their_process(
    lab: LabHandle, taken: int
) -> None:
    sockets = facts(lab, "--limit", "node01")["node01"]["sockets"]["value"]["on_job_ports"]
    seen = {(socket["state"], socket["local_port"], socket["process"]) for socket in sockets}
    assert seen == {("LISTEN", taken, "python3"), ("ESTAB", 60005, "python3")}


def test_reserved_ports_are_read_from_the_kernel_and_from_the_files_that_set_them(lab: LabHandle) -> None:
    lab.ssh("node02", "sysctl -w net.ipv4.ip_local_reserved_ports=50000-50001,50002")
    lab.ssh("node02", "echo net/ipv4/ip_local_reserved_ports = 50000 > /etc/sysctl.d/70-mine.conf")
    try:
        sysctl = facts(lab, "--limit", "node02")["node02"]["sysctl"]["value"]
        assert sysctl["reserved_ports"] == "50000-50002"
        files = {file["path"]: (file["value"], file["writable"]) for file in sysctl["reserved_files"]}
        assert files["/etc/sysctl.d/70-mine.conf"] == ("50000", True)
    finally:
        lab.ssh("node02", "rm /etc/sysctl.d/70-mine.conf; sysctl -w net.ipv4.ip_local_reserved_ports=")


def test_a_port_of_the_fabric_that_goes_down_is_a_link_that_is_down(lab: LabHandle) -> None:
    (host,) = [host for host in lab.status["hosts"] if host["name"] == "node02"]
    nic = host["devices"][3]
    link = ["ip", "-n", nic["fabric_netns"], "link", "set", nic["fabric_interface"]]
    assert device(lab, "node02", 3)["link"]["value"] == "UP"
    subprocess.run([*link, "down"], check=True)
    try:
        assert device(lab, "node02", 3)["link"]["value"] == "DOWN"
    finally:
        subprocess.run([*link, "up"], check=True)
    assert device(lab, "node02", 3)["link"]["value"] == "UP"


def test_our_own_firewall_rules_are_told_from_the_others(lab: LabHandle) -> None:
    rule = 'ip saddr 198.18.1.0/24 tcp dport 60000-60031 accept comment "preflight"'
    lab.ssh("node02", f"nft insert rule inet filter input {rule.replace(chr(34), chr(92) + chr(34))}")
    try:
        firewall = facts(lab, "--limit", "node02")["node02"]["firewall"]["value"]
        (chain,) = firewall["nft_chains"]
        assert (chain["family"], chain["table"], chain["name"], chain["policy"]) == ("inet", "filter", "input", "drop")
        assert chain["ours"] == [rule]
        assert len(chain["rules"]) > 1
    finally:
        lab.ssh("node02", "nft flush ruleset; nft -f /etc/nftables.conf")


def test_a_host_that_does_not_answer_is_named_and_the_others_have_their_facts(lab: LabHandle, tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.toml"
    text = lab.inventory.read_text(encoding="utf-8").replace(".[11-12]", ".[11,99]")
    assert ",99]" in text
    inventory.write_text(
        text.replace('"id_ed25519"', f'"{lab.dir}/id_ed25519"').replace('"known_hosts"', f'"{lab.dir}/known_hosts"')
    )
    done = preflight("facts", "-i", inventory, "-o", "json", check=False)
    hosts = json.loads(done.stdout)["hosts"]
    assert done.returncode == 3
    assert set(hosts["node02"]) == {"unreachable"}
    assert "node02" in done.stderr
    assert "value" in hosts["node01"]["os"]


def test_facts_of_a_ufw_host_name_its_rules(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=1, devices=0, product="cpu", firewall="ufw")
    lab.ssh("node01", "ufw allow proto tcp from 10.1.0.0/16 to any port 29500,60000:60031 comment preflight", 30)
    firewall = facts(lab)["node01"]["firewall"]["value"]
    assert firewall["ufw_enabled"] is True
    assert firewall["ufw_ours"] == ["allow tcp 29500,60000:60031 from 10.1.0.0/16"]
    assert len(firewall["ufw_rules"]) > 1
    assert any(chain["name"] == "INPUT" for chain in firewall["nft_chains"])


def test_pings_cross_the_fabric_and_die_with_the_port_they_cross(lab: LabHandle) -> None:
    from preflight.facts.collect import FactsRequest, collect
    from preflight.facts.pings.plan import plan_pings
    from preflight.facts.pings.run import ping, reachable_hosts
    from preflight.inventory import load
    from preflight.model.ping import Ping
    from preflight.transport import Options, open_transport

    cluster = load(lab.inventory)
    transport = open_transport(cluster, Options())

    def pings() -> dict[tuple[str, int, str], Ping]:
        facts = collect(FactsRequest(cluster, cluster.hosts), transport, progress=None)
        plan = plan_pings(cluster, facts).pings
        done = ping(reachable_hosts(cluster, facts), transport, plan, progress=None)
        return {(it.host, it.device, it.peer): it for it in done if it.purpose == "reach"}

    (host,) = [host for host in lab.status["hosts"] if host["name"] == "node02"]
    nic = host["devices"][5]
    link = ["ip", "-n", nic["fabric_netns"], "link", "set", nic["fabric_interface"]]
    try:
        healthy = pings()
        assert len(healthy) == 2 * 8 * 2  # every device: its gateway and the other host
        assert {(it.sent, it.received, it.error) for it in healthy.values()} == {(3, 3, "")}
        subprocess.run([*link, "down"], check=True)
        broken = {key for key, it in pings().items() if it.received == 0}
        assert broken == {("node01", 5, "node02/5"), ("node02", 5, "gateway")}  # one that is down sends one ping
    finally:
        subprocess.run([*link, "up"], check=True)
        transport.close()
