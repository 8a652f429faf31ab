"""Lost pings are counted: one cause is named once, whatever the plan that met it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from preflight.checks.losses import End, causes, end, own
from preflight.facts.ping_plan import Wanted, plan_pings
from preflight.facts.types import Ping
from tests.unit.test_pings import ALL, CROSS, MESH, NEIGHBOURS, cluster, rows

HOSTS, DEVICES = 6, 4
PLANS = pytest.mark.parametrize("wanted", [NEIGHBOURS, MESH, CROSS, ALL], ids=["neighbours", "mesh", "cross", "all"])
Told = list[tuple[str, tuple[str, ...], int | None]]


def leaf(device: End) -> str:
    """Two leaves a rail, three hosts behind each."""
    return f"leaf{device.device}-{int(device.host[1:]) // 3}"


LEAVES = {(f"n{host}", index): leaf(End(f"n{host}", index)) for host in range(HOSTS) for index in range(DEVICES)}


def pinged(wanted: Wanted, lost: Callable[[End, End], bool], *, hosts: int = HOSTS, gateway: str = "yes") -> list[Ping]:
    """The plan's pings, of which those are lost whose ends `lost` names, in whatever order."""
    plan = plan_pings(cluster(), rows(hosts, DEVICES, gateway=gateway, subnets=True, leaf=3), wanted).pings
    return [
        replace(ping, sent=3, received=0 if lost(own(ping), end(ping)) or lost(end(ping), own(ping)) else 3)
        for ping in plan if ping.purpose == "reach"
    ]  # fmt: skip


def told(pings: Sequence[Ping]) -> Told:
    found = causes(pings, LEAVES)
    lost = [ping for ping in pings if ping.received < ping.sent]
    assert set(lost) == {ping for cause in found for ping in cause.lost}, "each is explained"
    return [(cause.kind, cause.names, cause.device) for cause in found]


@PLANS
def test_where_nothing_is_lost_nothing_is_named(wanted: Wanted) -> None:
    assert told(pinged(wanted, lambda one, other: False)) == []  # noqa: ARG005


@PLANS
def test_one_bad_device_is_named_once(wanted: Wanted) -> None:
    assert told(pinged(wanted, lambda one, _: one == End("n2", 1))) == [("device", ("n2",), 1)]


@PLANS
def test_one_bad_rail_is_named_once(wanted: Wanted) -> None:
    assert told(pinged(wanted, lambda one, _: one.device == 1)) == [("rail", (), 1)]


@PLANS
@pytest.mark.parametrize("gateway", ["yes", ""])
def test_one_host_without_its_network_is_named_once(wanted: Wanted, gateway: str) -> None:
    assert told(pinged(wanted, lambda one, _: one.host == "n2", gateway=gateway)) == [("host", ("n2",), None)]


@PLANS
def test_one_gateway_that_is_off_is_named_once(wanted: Wanted) -> None:
    assert told(pinged(wanted, lambda one, _: one == End("10.0.2.254", -1))) == [("gateway", ("10.0.2.254",), None)]


@PLANS
def test_everything_is_one_cause(wanted: Wanted) -> None:
    assert told(pinged(wanted, lambda *_: True)) == [("fabric", (), None)]


@PLANS
def test_one_link_stays_a_link(wanted: Wanted) -> None:
    assert told(pinged(wanted, lambda one, other: (one, other) == (End("n0", 3), End("n1", 3)))) == [
        ("link", ("n0/3", "n1/3"), None)
    ]


def test_two_leaves_that_do_not_reach_each_other_are_named_and_nobody_is_convicted() -> None:
    def apart(one: End, other: End) -> bool:
        return (
            not one.is_gateway and not other.is_gateway and one.device == other.device == 1 and leaf(one) != leaf(other)
        )

    assert told(pinged(MESH, apart)) == [("leaves", ("leaf1-0", "leaf1-1"), None)]
    assert told(pinged(NEIGHBOURS, apart)) == [("leaves", ("leaf1-0", "leaf1-1"), None)]


def test_leaves_are_not_named_where_pings_are_lost_inside_one_of_them() -> None:
    def lost(one: End, other: End) -> bool:
        return {one.host, other.host} in ({"n0", "n3"}, {"n1", "n4"}, {"n0", "n1"}) and one.device == other.device == 1

    assert {kind for kind, *_ in told(pinged(MESH, lost))} == {"link"}


def test_two_hosts_that_reach_everybody_else_are_named_together() -> None:
    assert told(pinged(MESH, lambda one, other: {one.host, other.host} == {"n0", "n1"})) == [
        ("hosts", ("n0", "n1"), None)
    ]


def test_two_hosts_alone_are_nobody_s_word_against_the_other() -> None:
    def lost(one: End, other: End) -> bool:
        return one.device == other.device == 1

    assert told(pinged(NEIGHBOURS, lost, hosts=2, gateway="")) == [("link", ("n0/1", "n1/1"), None)]


def test_a_rail_is_not_named_for_the_devices_that_do_not_reach_their_gateway_either() -> None:
    def lost(one: End, other: End) -> bool:  # of three hosts two have a bad device 1; the third one's is good
        return one in (End("n0", 1), End("n1", 1)) or {one, other} == {End("n2", 1), End("n0", 1)}

    assert told(pinged(NEIGHBOURS, lost, hosts=3)) == [("device", ("n0",), 1), ("device", ("n1",), 1)]


def test_one_lost_packet_of_three_counts_and_one_that_could_not_be_sent_does_not() -> None:
    pings = pinged(NEIGHBOURS, lambda one, other: False)  # noqa: ARG005
    slow = [replace(ping, received=2) if own(ping) == End("n0", 0) else ping for ping in pings]
    assert [kind for kind, *_ in told(slow)] == ["link", "link", "link"]
    assert causes([replace(ping, sent=0, received=0, error="busy") for ping in pings], LEAVES) == []


def test_a_host_that_is_gone_since_the_first_round_is_named_for_the_pings_it_does_not_answer() -> None:
    pings = [
        replace(ping, sent=0, received=0, error="n2: no answer") if ping.host == "n2" else ping
        for ping in pinged(NEIGHBOURS, lambda one, _: one.host == "n2", gateway="")
        if (ping.host, ping.peer.partition("/")[0]) != ("n4", "n2")
    ]
    assert [(cause.kind, cause.names) for cause in causes(pings, {})] == [("host", ("n2",))]
