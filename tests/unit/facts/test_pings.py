"""The second round: who pings whom, and what becomes of it."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from preflight.facts.pings.plan import (
    MOST_PINGS,
    OTHER_LEAVES,
    PingScope,
    is_sibling,
    most_pings,
    plan_pings,
    planned_devices,
    refuse_too_many,
)
from preflight.facts.pings.run import expected_seconds, forecast, ping, reachable_hosts
from preflight.facts.pings.tournament import opponent, steps
from preflight.facts.reading import Found
from preflight.facts.sections.nic import Nic, NicDevice, Vnic
from preflight.facts.types import ClusterFacts, Hccn, HccnDevice, HostFacts, Missing, Reading, Unreachable
from preflight.model.cluster import Cluster, Device, Fabric, Host, Product
from preflight.model.errors import UsageError
from preflight.model.ping import Ping
from preflight.transport.types import Answer, Channel, ErrorKind, Program, TransportError

NONE = Reading()
NEIGHBOURS, MESH, CROSS = PingScope(), PingScope(mesh=True), PingScope(cross_rail=True)
ALL = PingScope(mesh=True, cross_rail=True)


def device(
    index: int, address: str | None, gateway: str = "", *, leaf: str = "", mtu: str = "", mask: str = ""
) -> HccnDevice:
    return HccnDevice(
        index, Reading(address), Reading(mask or None), NONE, NONE, NONE, Reading(gateway or None), NONE, NONE,
        Reading(leaf or None), Reading(mtu or None),
    )  # fmt: skip


def with_devices(*devices: HccnDevice) -> HostFacts:
    no = Missing("not looked at")
    return HostFacts(no, no, no, no, no, no, no, no, no, hccn=Hccn(devices))


def cluster(
    *names: str, fabric: Fabric = Fabric.SWITCHED, gateway: str = "", product: Product = Product.ATLAS_A2
) -> Cluster:
    devices = tuple(Device(index, None, IPv4Address(gateway) if gateway else None) for index in (0, 1))
    return Cluster("c", product, tuple(Host(name, name, devices=devices) for name in names), fabric=fabric)


def rows(hosts: int, devices: int, *, subnets: bool = False, gateway: str = "", leaf: int = 0) -> ClusterFacts:
    """A full cluster n0, n1, …; `subnets`: a rail each instead of one for all; `leaf`: hosts behind each."""

    def one(host: int, index: int) -> HccnDevice:
        address = f"10.0.{index}.{host + 1}" if subnets else f"10.0.0.{host * devices + index + 1}"
        behind = f"l{host // leaf}" if leaf else ""
        return device(index, address, gateway and f"10.0.{index}.254", leaf=behind, mask="255.255.255.0")

    return ClusterFacts(
        {f"n{host}": with_devices(*(one(host, index) for index in range(devices))) for host in range(hosts)}
    )


def pairs(plan: tuple[Ping, ...]) -> list[tuple[str, str, str]]:
    return [(f"{ping.host}/{ping.device}", ping.address, ping.peer) for ping in plan]


def ends(plan: tuple[Ping, ...]) -> set[tuple[str, str]]:
    return {(f"{ping.host}/{ping.device}", ping.peer) for ping in plan}


def by_step(plan: tuple[Ping, ...]) -> list[list[tuple[str, str]]]:
    """What all devices do at a time, if every ping takes as long."""
    lists: dict[str, list[str]] = defaultdict(list)
    for it in plan:
        lists[f"{it.host}/{it.device}"].append(it.peer)
    longest = max(map(len, lists.values()))
    return [[(name, peers[step]) for name, peers in lists.items() if step < len(peers)] for step in range(longest)]


# The tournament.


@pytest.mark.parametrize("players", range(12))
def test_in_a_tournament_every_pair_meets_once_and_nobody_meets_two_at_a_time(players: int) -> None:
    met: Counter[tuple[int, int]] = Counter()
    for step in range(steps(players)):
        others = [opponent(player, step, players) for player in range(players)]
        for player, other in enumerate(others):
            assert other is None or (other != player and others[other] == player)
            if other is not None and player < other:
                met[player, other] += 1
        assert others.count(None) == players % 2
    assert met == {(one, other): 1 for one in range(players) for other in range(one + 1, players)}


# The plan.

THREE = ClusterFacts(
    {
        "a": with_devices(device(0, "10.0.0.1", "10.0.0.254"), device(1, "10.0.0.2")),
        "b": with_devices(device(0, "10.0.0.3")),
        "gone": Unreachable("timeout", "x", "y"),
        "c": with_devices(device(0, "10.0.0.5"), device(1, None)),
    }
)
FOUR = cluster("a", "b", "gone", "c")


def test_a_device_pings_its_gateway_and_the_next_host_of_its_rail() -> None:
    assert pairs(plan_pings(FOUR, THREE).pings) == [
        ("a/0", "10.0.0.254", "gateway"),
        ("a/0", "10.0.0.3", "b/0"),
        ("b/0", "10.0.0.5", "c/0"),
        ("c/0", "10.0.0.1", "a/0"),
    ]


def test_the_inventory_s_gateway_goes_before_the_one_the_device_has() -> None:
    plan = plan_pings(cluster("a", "b", "gone", "c", gateway="10.0.0.9"), THREE).pings
    assert [ping.address for ping in plan if ping.peer == "gateway"] == ["10.0.0.9"] * 4


@pytest.mark.parametrize("hosts", [2, 3, 6])
def test_a_mesh_pings_every_host_of_the_rail_and_no_other_rail(hosts: int) -> None:
    plan = plan_pings(cluster(), rows(hosts, 2), MESH).pings
    assert len(plan) == 2 * hosts * (hosts - 1)
    assert ends(plan) == {
        (f"n{one}/{index}", f"n{other}/{index}")
        for one in range(hosts) for other in range(hosts) for index in (0, 1) if one != other
    }  # fmt: skip


@pytest.mark.parametrize(("hosts", "wanted"), [(2, MESH), (5, MESH), (6, MESH), (3, ALL), (4, ALL)])
def test_in_every_step_of_a_mesh_two_devices_have_each_other_and_nobody_else(hosts: int, wanted: PingScope) -> None:
    # An odd number of players rests in turns, so lists that leave the rest out shift against each other by one.
    for step in by_step(plan_pings(cluster(), rows(hosts, 2), wanted).pings):
        asked = Counter(peer for _, peer in step)
        assert max(asked.values()) <= (1 if hosts % 2 == 0 and wanted is MESH else 2)


@pytest.mark.parametrize("wanted", [PingScope(), CROSS])
def test_in_every_step_among_neighbours_a_device_is_pinged_by_one_other(wanted: PingScope) -> None:
    plan = plan_pings(cluster(), rows(12, 3, leaf=4), wanted).pings
    for step in by_step(tuple(it for it in plan if it.peer != "gateway")):
        assert max(Counter(peer for _, peer in step).values()) <= 2


def test_on_a_direct_fabric_there_is_no_gateway_to_ping_and_nothing_across_rails() -> None:
    direct = cluster("a", "b", fabric=Fabric.DIRECT, gateway="10.0.0.9")
    plan = plan_pings(direct, THREE, CROSS)
    assert {ping.peer for ping in plan.pings} == {"a/0", "b/0", "c/0"}
    assert plan.notes == ("pings across rails are omitted, because a direct fabric does not connect rails",)


def test_one_host_of_every_other_leaf_is_pinged_besides_the_next() -> None:
    leaves = {"a": "l1", "b": "l1", "c": "l2", "d": "l2", "e": "l3"}
    facts = ClusterFacts(
        {name: with_devices(device(0, f"10.0.0.{n}", leaf=leaf)) for n, (name, leaf) in enumerate(leaves.items(), 1)}
    )
    plan = plan_pings(cluster(*leaves), facts).pings
    assert [ping.peer for ping in plan if ping.host == "a"] == ["b/0", "c/0", "e/0"]
    assert [ping.peer for ping in plan if ping.host == "d"] == ["e/0", "b/0"]


def test_of_many_leaves_every_two_are_joined_and_no_device_does_it_all() -> None:
    leaves, each = 30, 8
    plan = plan_pings(cluster(), rows(leaves * each, 1, leaf=each)).pings

    def leaf(name: str) -> int:
        return int(name.partition("/")[0][1:]) // each

    joined = {frozenset((leaf(one), leaf(other))) for one, other in ends(plan)}
    assert len({pair for pair in joined if len(pair) == 2}) == leaves * (leaves - 1) / 2
    assert max(Counter(it.host for it in plan).values()) <= 1 + OTHER_LEAVES
    assert max(Counter(it.peer for it in plan).values()) <= 1 + OTHER_LEAVES


def test_one_host_alone_pings_nobody_but_its_gateway() -> None:
    facts = ClusterFacts({"a": THREE.hosts["a"]})
    assert pairs(plan_pings(cluster("a"), facts, MESH).pings) == [("a/0", "10.0.0.254", "gateway")]
    assert pairs(plan_pings(cluster("a"), facts, CROSS).pings) == [("a/0", "10.0.0.254", "gateway")]


def test_across_rails_each_device_pings_the_other_devices_of_the_next_host() -> None:
    plan = plan_pings(cluster(), rows(3, 4), CROSS).pings
    assert [it.peer for it in plan if (it.host, it.device) == ("n0", 1)] == ["n1/1", "n1/2", "n1/3", "n1/0"]
    assert len(plan) == 3 * 4 * 4


def test_a_mesh_across_rails_pings_everybody() -> None:
    everybody = [f"n{host}/{index}" for host in range(3) for index in range(4)]
    plan = plan_pings(cluster(), rows(3, 4), ALL).pings
    assert len(plan) == 12 * 11
    assert ends(plan) == {(one, other) for one in everybody for other in everybody if one != other}


def test_the_dies_of_one_chip_of_an_a3_never_ping_each_other() -> None:
    a2, a3 = (plan_pings(cluster(product=p), rows(2, 4), ALL).pings for p in (Product.ATLAS_A2, Product.ATLAS_A3))
    siblings = {("n0/0", "n0/1"), ("n0/2", "n0/3"), ("n1/0", "n1/1"), ("n1/2", "n1/3")}
    assert ends(a2) - ends(a3) == siblings | {(other, one) for one, other in siblings}
    assert [other for other in range(6) if is_sibling(2, other)] == [3]
    assert [other for other in range(6) if is_sibling(5, other)] == [4]


def test_devices_of_one_host_of_an_a1_never_ping_each_other() -> None:
    plan = plan_pings(cluster(product=Product.ATLAS_A1), rows(2, 4), ALL).pings
    assert plan
    assert not [it for it in plan if it.peer.startswith(f"{it.host}/")]


def test_rails_in_subnets_of_their_own_reach_each_other_through_gateways_alone() -> None:
    one = cluster(product=Product.ATLAS_A1)
    without = plan_pings(one, rows(2, 2, subnets=True), CROSS)
    assert ends(without.pings) == {("n0/0", "n1/0"), ("n0/1", "n1/1"), ("n1/0", "n0/0"), ("n1/1", "n0/1")}
    assert without.notes == (
        "4 pings across rails are omitted, because the subnets differ and at least one side has no gateway",
    )
    routed = plan_pings(one, rows(2, 2, subnets=True, gateway="yes"), CROSS)
    assert ("n0/0", "n1/1") in ends(routed.pings)
    assert routed.notes == ()


def test_as_much_as_the_mtu_of_both_ends_allows_is_sent_to_gateway_and_neighbour() -> None:
    mtus = {"a": "4200", "b": "1500", "c": ""}
    facts = ClusterFacts(
        {
            name: with_devices(device(0, f"10.0.0.{n}", "10.0.0.254", mtu=mtu))
            for n, (name, mtu) in enumerate(mtus.items(), 1)
        }
    )
    large = [it for it in plan_pings(cluster(*mtus), facts).pings if it.purpose == "mtu"]
    assert [(it.host, it.peer, it.size) for it in large] == [
        ("a", "gateway", 4172), ("a", "b/0", 1472), ("b", "gateway", 1472)
    ]  # fmt: skip
    asked = plan_pings(cluster(*mtus), facts, PingScope(size=64)).pings
    assert {(it.size, it.purpose) for it in asked} == {(64, "reach")}
    assert plan_pings(cluster(*mtus), facts, PingScope(size=1472)).notes == ()
    assert plan_pings(cluster(*mtus), facts, PingScope(size=4000)).notes == (
        "packets of 4000 bytes exceed the MTU of 1 of 3 devices. Such packets are split or not sent",
    )


def test_a_device_with_its_link_down_sends_one_ping_and_gets_no_large_one() -> None:
    up = {f"n{n}": device(0, f"10.0.0.{n}", "10.0.0.254", mtu="4096") for n in (1, 2, 3)}
    down = replace(up["n2"], link=Reading("DOWN"))
    facts = ClusterFacts({name: with_devices(each) for name, each in {**up, "n2": down}.items()})
    plan = plan_pings(cluster("n1", "n2", "n3"), facts).pings
    assert [(it.host, it.peer, it.purpose) for it in plan] == [
        ("n1", "gateway", "reach"),
        ("n1", "n2/0", "reach"),
        ("n1", "gateway", "mtu"),
        ("n2", "gateway", "reach"),
        ("n3", "gateway", "reach"),
        ("n3", "n1/0", "reach"),
        ("n3", "gateway", "mtu"),
        ("n3", "n1/0", "mtu"),
    ]


def test_the_dies_of_a_chip_ping_each_other_over_hccs_where_both_have_a_vnic_address() -> None:
    def vnic(index: int, address: str) -> NicDevice:
        return NicDevice(index, vnic=Found(Vnic("UP", address, "255.0.0.0")))

    first = (vnic(0, "192.9.2.199"), vnic(1, "192.9.3.198"))
    host = replace(with_devices(), nic=Nic((*first, vnic(2, "192.9.2.197"), vnic(3, ""), NicDevice(4), NicDevice(5))))
    for product, expected in ((Product.ATLAS_A3, [("a/0", "192.9.3.198", "a/1"), ("a/1", "192.9.2.199", "a/0")]),
                              (Product.ATLAS_A2, [])):  # fmt: skip
        plan = plan_pings(cluster("a", product=product), ClusterFacts({"a": host})).pings
        assert pairs(plan) == expected
        assert {it.purpose for it in plan} <= {"hccs"}


# How much it is.


@pytest.mark.parametrize("wanted", [PingScope(), MESH, CROSS, ALL])
def test_the_size_of_a_plan_is_known_before_it_is_made(wanted: PingScope) -> None:
    facts = rows(6, 3, gateway="yes", leaf=2)
    plan = plan_pings(cluster(), facts, wanted).pings
    most = most_pings({name: [0, 1, 2] for name in facts.hosts}, wanted)
    assert len(plan) <= most <= len(plan) + 18 * (4 + OTHER_LEAVES)


def test_a_mesh_that_nobody_would_wait_for_is_refused_from_the_inventory_alone() -> None:
    hosts = [Host(f"n{n}", "x", devices=tuple(Device(index) for index in range(16))) for n in range(4000)]
    with pytest.raises(UsageError, match=r"--mesh would send 256,192,000 pings between 4,000 hosts\. .* with --limit"):
        refuse_too_many(planned_devices(hosts), MESH)
    with pytest.raises(UsageError, match=r"--mesh --cross-rail would send 2,564,800 pings"):
        refuse_too_many(planned_devices(hosts[:100]), ALL)
    refuse_too_many(planned_devices(hosts), PingScope())
    refuse_too_many(planned_devices(hosts[:200]), MESH)
    assert most_pings(planned_devices(hosts[:200]), MESH) < MOST_PINGS


def test_the_time_foretold_is_that_of_the_device_with_the_most_pings_for_every_batch_of_hosts() -> None:
    plan = tuple(Ping(f"h{host}", 0, f"10.0.0.{n}", "x") for host in range(40) for n in range(3))
    assert expected_seconds(plan, pool=32) == 2 * expected_seconds(plan[:3], pool=32) > 0
    assert expected_seconds(()) == 0
    assert forecast(plan, pool=32) == "120 pings between the devices of 40 hosts, 3 per device, about 6 s"
    assert forecast(()) == ""


def test_who_would_wait_for_more_than_a_minute_is_told_what_is_shorter() -> None:
    plan = tuple(Ping("h", 0, f"10.0.0.{n}", "x") for n in range(61))
    assert "about 61 s. To shorten this, omit --mesh" in forecast(plan)
    assert "shorter" not in forecast(plan[:60])


# The round.


def three(line: str, summary: str) -> str:
    return "".join(f"{line.format(sequence)}\n" for sequence in range(3)) + summary + "\n"


GOOD = three("recv seq={},time=0.1ms", "3 packets transmitted, 3 received, 0.00% packet loss")
LOST = three("recv time out seq={}", "3 packets transmitted, 0 received, 100.00% packet loss")
TOO_LONG = three("Message too long", "3 packets transmitted, 0 received, 100.00% packet loss")


def said(out: str, err: str = "", code: int = 0, trouble: str = "") -> dict[str, object]:
    return {"out": out, "err": err, "code": code, "trouble": trouble}


class Wire:
    """A transport of hosts that all answer with `value` for the section of pings; `gone` is unreachable."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.asked: list[dict[str, Any]] = []

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:  # noqa: ARG002
        if host.name == "gone":
            raise TransportError(ErrorKind.TIMEOUT, "gone: no answer in 10 s", "is it switched on?")
        request = json.loads(program.payload)
        self.asked.append(request)
        text = json.dumps({"pings": {"value": self.value}})
        return Answer(f"\n{request['marker']} {len(text)}\n{text}\n".encode(), b"", 0, 1.0)

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        raise NotImplementedError

    def close(self) -> None: ...


def pinged(value: object, *plan: Ping, facts: ClusterFacts = THREE) -> tuple[Ping, ...]:
    return ping(reachable_hosts(FOUR, facts), Wire(value), plan, progress=None)


A, B = Ping("a", 0, "10.0.0.3", "b/0"), Ping("a", 0, "10.0.0.3", "b/0", size=1472, purpose="mtu")


def test_pings_come_back_in_the_order_of_the_plan_each_with_its_own_result() -> None:
    plan = (*plan_pings(FOUR, THREE).pings, Ping("gone", 0, "10.0.0.1", "a/0"))
    done = pinged({"0": [said(LOST, "Command execute failed!\n", 1), said(GOOD)]}, *plan)
    assert [replace(it, sent=0, received=0, milliseconds=None, error="") for it in done] == list(plan)
    assert (done[0].sent, done[0].received, done[0].error) == (3, 0, "")
    assert (done[1].received, done[1].milliseconds) == (3, 0.1)
    assert done[4].error == "no facts were collected from the host"


def test_two_sizes_to_one_address_are_asked_in_turn_and_kept_apart() -> None:
    wire = Wire({"0": [said(GOOD), said(LOST, "Command execute failed!\n", 1)]})
    small, large = ping(reachable_hosts(FOUR, THREE), wire, (A, B), progress=None)
    assert (small.received, large.sent, large.received) == (3, 3, 0)
    assert wire.asked[0]["pings"] == [
        [0, ["-ping", "-g", "address", "10.0.0.3"]],
        [0, ["-ping", "-g", "address", "10.0.0.3", "pkt", "1472"]],
    ]


def test_a_tool_that_fails_is_an_error_with_its_words_and_not_a_loss() -> None:
    (done,) = pinged({"0": [said("", "Command execute failed!\n", 1)]}, A)
    assert (done.sent, done.error) == (0, "Command execute failed!")


def test_over_hccs_the_tool_s_own_success_is_not_believed() -> None:
    said_well = "3 packets transmitted, 1 received, 66.67% packets loss\nCmd executed successfully!\n"
    replies = "This pkt ping success!\nrecv seq 0, time = 10.000us, L1 plane check result = 0x1\n"
    wire = Wire({"0": [said("device 0 PING 192.9.3.198\n\n" + replies + "This pkt send fail!\n" * 2 + said_well)]})
    plan = Ping("a", 0, "192.9.3.198", "a/1", purpose="hccs")
    (done,) = ping(reachable_hosts(FOUR, THREE), wire, (plan,), progress=None)
    assert wire.asked[0]["pings"] == [[0, ["-hccs_ping", "-g", "address", "192.9.3.198", "cnt", "3"]]]
    assert (done.sent, done.received, done.plane_faults, done.error) == (3, 1, 1, "")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"0": []}, "hccn_tool did not answer in time"),
        ({}, "hccn_tool did not answer in time"),
        ({"0": "x"}, "section pings of the collector's response is not valid"),
        ({"0": [said("\x00\x1b[2J")]}, "which is not recognized"),
        ({"0": [said(GOOD * 2)]}, "hccn_tool answered 2 times where one answer was expected"),
        ({"0": [said(TOO_LONG, "Command execute failed!\n", 1)]}, "Message too long"),
        ({"0": [said("", code=1)]}, "hccn_tool printed nothing and exited with 1"),
        ({"0": [said("", code=-1, trouble="hccn_tool -i 0 did not finish in time")]}, "did not finish in time"),
    ],
)
def test_what_cannot_be_read_is_an_error_in_a_sentence(value: object, error: str) -> None:
    (done,) = pinged(value, A)
    assert error in done.error
    assert done.sent == 0


def test_a_host_that_dies_between_the_rounds_leaves_an_error_a_ping() -> None:
    facts = ClusterFacts({**THREE.hosts, "gone": THREE.hosts["a"]})
    lost = pinged({}, Ping("gone", 0, "10.0.0.3", "b/0"), Ping("gone", 1, "10.0.0.3", "b/0"), facts=facts)
    assert {it.error for it in lost} == {"gone: no answer in 10 s"}
