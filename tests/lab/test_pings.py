"""Pings across the fabric of the lab, and what is said of faults made by hand at the switch's ports."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab
Named = tuple[str, str, str | None, int | None, int | None]


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Three hosts, one subnet for all devices, a gateway, MTU 1500."""
    return configured(make_lab(hosts=3, devices=4, product="atlas-a2"))


def configured(lab: LabHandle) -> LabHandle:
    preflight("configure-device-ips", "--inventory", lab.inventory, "--yes", "--allow-disturbing")
    return lab


def check(lab: LabHandle, *arguments: str) -> tuple[list[Named], str]:
    """(check, outcome, host, device, rail) of all that is wrong with pings, and what stands on stderr."""
    done = preflight("check", "--inventory", lab.inventory, "--only", "PNG", "-o", "json", *arguments, check=False)
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    wrong = [it for it in findings if it["outcome"] not in ("pass", "skip")]
    return [(it["check"], it["outcome"], it["host"], it["device"], it["rail"]) for it in wrong], done.stderr


@contextmanager
def switched(lab: LabHandle, ports: list[tuple[str, int]], change: str, back: str) -> Iterator[None]:
    """The switch's ports of the devices (host, index), after `ip link set PORT CHANGE`."""
    devices = {(host["name"], device["index"]): device for host in lab.status["hosts"] for device in host["devices"]}

    def each(words: str) -> None:
        for port in ports:
            namespace, interface = devices[port]["fabric_netns"], devices[port]["fabric_interface"]
            subprocess.run(["ip", "-n", namespace, "link", "set", interface, *words.split()], check=True)

    try:
        each(change)
        yield
    finally:
        each(back)


def cut_off(lab: LabHandle, ports: list[tuple[str, int]]) -> AbstractContextManager[None]:
    """The devices' links stay up, and the switch forwards nothing for them, as with a port in another VLAN."""
    return switched(lab, ports, "nomaster", "master fabric")


@pytest.mark.parametrize(
    ("options", "foretold"),
    [
        ((), "48 pings between the devices of 3 hosts, 4 per device, about 4 s"),
        (("--mesh",), "60 pings between the devices of 3 hosts, 5 per device, about 5 s"),
        (("--cross-rail",), "84 pings between the devices of 3 hosts, 7 per device, about 7 s"),
        (("--mesh", "--cross-rail"), "168 pings between the devices of 3 hosts, 14 per device, about 14 s"),
        (("--ping-size", "64"), "24 pings between the devices of 3 hosts, 2 per device, about 2 s"),
    ],
    ids=" ".join,
)
def test_on_a_healthy_fabric_all_pings_come_back(lab: LabHandle, options: tuple[str, ...], foretold: str) -> None:
    wrong, said = check(lab, *options)
    assert wrong == []
    assert foretold in said


@pytest.mark.parametrize("options", [(), ("--mesh",), ("--mesh", "--cross-rail")], ids=" ".join)
def test_a_device_that_the_switch_does_not_forward_for_is_named_once(lab: LabHandle, options: tuple[str, ...]) -> None:
    with cut_off(lab, [("node02", 1)]):
        assert check(lab, *options)[0] == [("PNG101", "fail", "node02", 1, 1)]


def test_a_device_without_its_link_is_named_by_npu107_alone(lab: LabHandle) -> None:
    with switched(lab, [("node02", 1)], "down", "up"):
        assert check(lab)[0] == []
        assert check(lab, "--only", "NPU107", "--skip", "PNG")[0] == [("NPU107", "fail", "node02", 1, None)]


def test_the_gateway_keeps_its_address_whichever_port_leaves_the_switch(lab: LabHandle) -> None:
    def address() -> str:
        fabric = lab.status["hosts"][0]["devices"][0]["fabric_netns"]
        show = subprocess.run(["ip", "-n", fabric, "-j", "link", "show", "fabric"], capture_output=True, check=True)
        return str(json.loads(show.stdout)[0]["address"])

    before = address()
    with cut_off(lab, [(f"node0{host}", index) for host in (1, 2, 3) for index in range(4)]):
        assert address() == before


LATE = """
import os, signal, socket, struct, time
asked = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
asked.bind(("192.168.100.1", 0))
print("listening", flush=True)
while True:
    packet, (sender, _) = asked.recvfrom(2048)
    pinging = struct.unpack("!H", packet[24:26])[0]
    os.kill(pinging, signal.SIGSTOP)
    asked.setblocking(False)
    try:  # the last of those it has sent: this may be late itself
        while True:
            packet = asked.recv(2048)
    except BlockingIOError:
        asked.setblocking(True)
    sum_ = struct.unpack("!H", packet[22:24])[0] + 0x800  # of a request that becomes a reply
    asked.sendto(struct.pack("!BBH", 0, 0, (sum_ & 0xFFFF) + (sum_ >> 16)) + packet[24:], (sender, 0))
    time.sleep(0.6)
    os.kill(pinging, signal.SIGCONT)
"""


def test_a_stand_in_that_had_to_wait_for_the_processor_has_its_answer_all_the_same(lab: LabHandle) -> None:
    host = lab.status["hosts"][0]
    fabric = host["devices"][0]["fabric_netns"]
    ignore = ["ip", "netns", "exec", fabric, "sysctl", "-qw"]
    # It answers in the place of the kernel, among the processes of the host, so that it knows whom to stop.
    answering = ["nsenter", "-t", str(host["pid"]), "-p", "ip", "netns", "exec", fabric, sys.executable, "-c", LATE]
    subprocess.run([*ignore, "net.ipv4.icmp_echo_ignore_all=1"], check=True)
    try:
        with subprocess.Popen(answering, stdout=subprocess.PIPE, text=True) as late:
            assert late.stdout is not None and late.stdout.readline() == "listening\n"
            done = lab.ssh("node01", "hccn_tool -i 0 -ping -g address 192.168.100.1", timeout=20)
            late.kill()
    finally:
        subprocess.run([*ignore, "net.ipv4.icmp_echo_ignore_all=0"], check=True)
    assert "3 packets transmitted" in done.stdout, done.stderr
    assert "0 received" not in done.stdout


def test_gateways_that_refuse_icmp_are_a_warning(lab: LabHandle) -> None:
    fabric = lab.status["hosts"][0]["devices"][0]["fabric_netns"]
    rules = "table inet deaf { chain in { type filter hook input priority 0; icmp type echo-request drop; }; }"
    subprocess.run(["ip", "netns", "exec", fabric, "nft", rules], check=True)
    try:
        wrong = check(lab)[0]
    finally:
        subprocess.run(["ip", "netns", "exec", fabric, "nft", "delete table inet deaf"], check=True)
    assert wrong == [("PNG101", "warn", None, None, None)]


@pytest.mark.parametrize("options", [(), ("--mesh",)], ids=" ".join)
def test_a_rail_that_is_off_is_named_once(lab: LabHandle, options: tuple[str, ...]) -> None:
    with cut_off(lab, [(f"node0{host}", 2) for host in (1, 2, 3)]):
        assert check(lab, *options)[0] == [("PNG101", "fail", None, None, 2)]


def test_a_host_that_the_switch_does_not_forward_for_is_named_once(lab: LabHandle) -> None:
    with cut_off(lab, [("node03", index) for index in range(4)]):
        assert check(lab)[0] == [("PNG101", "fail", "node03", None, None)]


def test_a_switch_port_with_a_smaller_mtu_passes_small_pings_and_is_named_by_the_large_ones(lab: LabHandle) -> None:
    with switched(lab, [("node03", 0)], "mtu 1400", "mtu 1500"):
        assert check(lab)[0] == [("PNG102", "fail", "node03", 0, 0)]
    assert check(lab)[0] == []


def test_a_size_above_the_mtu_is_no_loss(lab: LabHandle) -> None:
    wrong, _ = check(lab, "--ping-size", "4000")
    assert {it[:2] for it in wrong} == {("PNG101", "unknown")}


def test_rails_of_an_a1_are_four_subnets_that_meet_at_the_gateways(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=4, product="atlas-a1")
    lab.configure_devices()
    wrong, said = check(lab, "--cross-rail")
    assert wrong == []
    assert "56 pings" in said  # of 8 devices: gateway and neighbour twice, three across


def test_the_dies_of_an_a3_ping_each_other_over_hccs_alone(make_lab: MakeLab) -> None:
    lab = configured(make_lab(hosts=2, devices=4, product="atlas-a3"))
    wrong, said = check(lab, "--mesh", "--cross-rail")
    assert wrong == []
    assert "80 pings" in said  # of 8 devices: the gateway twice, six others, one of them twice, the sibling over HCCS
    device = next(host for host in lab.status["hosts"] if host["name"] == "node02")["devices"][2]
    subprocess.run(["ip", "-n", device["netns"], "link", "set", "hccs0", "down"], check=True)
    assert sorted(check(lab)[0]) == [("PNG103", "warn", "node02", 2, None), ("PNG103", "warn", "node02", 3, None)]


# Parts that do not reach each other.


def parts(lab: LabHandle, *arguments: str) -> list[tuple[int | None, list[str], str]]:
    """(rail, members, cause) of each part that is named; nothing else is wrong."""
    done = preflight("check", "--inventory", lab.inventory, "--only", "PNG", "-o", "json", *arguments, check=False)
    document = json.loads(done.stdout)
    wrong = [it for it in document["findings"] if it["outcome"] not in ("pass", "skip")]
    culprits = [it["culprit"] for it in wrong]
    assert {(it["check"], it["outcome"], it["host"]) for it in wrong} == {("PNG101", "fail", None)}
    assert {culprit["kind"] for culprit in culprits} == {"partition"}
    assert document["culprits"] == culprits
    return sorted((it["rail"], it["culprit"]["members"], it["cause"]) for it in wrong)


@pytest.fixture(scope="module")
def two_leaves(make_lab: MakeLab) -> LabHandle:
    """Four hosts, two behind each leaf; the gateway is on the spine."""
    return configured(make_lab(hosts=4, devices=2, product="atlas-a2", leaves=2))


@pytest.mark.parametrize("options", [(), ("--mesh",), ("--mesh", "--cross-rail")], ids=" ".join)
def test_a_leaf_without_its_uplink_is_named_as_two_groups_of_hosts(
    two_leaves: LabHandle, options: tuple[str, ...]
) -> None:
    two_leaves.lab("break", "partition", "--host", "node03")
    try:
        found = parts(two_leaves, *options)
    finally:
        two_leaves.lab("fix", "partition")
    assert found == [
        (
            None,
            ["node01", "node02"],
            "a fault upstream of leaf01, because exactly the devices behind leaf01 are cut off",
        ),
        (
            None,
            ["node03", "node04"],
            "a fault upstream of leaf02, because exactly the devices behind leaf02 are cut off",
        ),
    ]


def test_a_rail_in_two_parts_is_named_as_two_groups_of_devices(two_leaves: LabHandle) -> None:
    hosts = {host["name"]: host for host in two_leaves.status["hosts"]}
    fabric = hosts["node01"]["devices"][1]["fabric_netns"]
    here, there = (
        f"{{ {', '.join(hosts[name]['devices'][1]['address'] for name in names)} }}"
        for names in (("node01", "node03"), ("node02", "node04"))
    )
    rules = f"ip saddr {here} ip daddr {there} drop; ip saddr {there} ip daddr {here} drop;"
    table = f"table bridge cut {{ chain forward {{ type filter hook forward priority 0; {rules} }}; }}"
    subprocess.run(["ip", "netns", "exec", fabric, "nft", table], check=True)
    try:
        found = parts(two_leaves, "--mesh")
    finally:
        subprocess.run(["ip", "netns", "exec", fabric, "nft", "delete table bridge cut"], check=True)
    cause = "a fault between the two parts, because the lost pings have no host or device in common"
    assert found == [(1, ["node01/1", "node03/1"], cause), (1, ["node02/1", "node04/1"], cause)]
