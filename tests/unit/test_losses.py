"""Lost pings are counted: one cause is named once, whatever the plan that met it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from preflight.checks.losses import End, Place, Places, causes, end, own
from preflight.facts.ping_plan import Wanted, plan_pings
from preflight.facts.types import Ping
from tests.unit.test_pings import ALL, CROSS, MESH, NEIGHBOURS, cluster, rows

HOSTS, DEVICES = 6, 4
PLANS = pytest.mark.parametrize("wanted", [NEIGHBOURS, MESH, CROSS, ALL], ids=["neighbours", "mesh", "cross", "all"])
Told = list[tuple[str, tuple[str, ...], int | None]]


def leaf(device: End) -> str:
    """Two leaves a rail, three hosts behind each."""
    return f"leaf{device.device}-{int(device.host[1:]) // 3}"


DEVICES_OF_ALL = [End(f"n{host}", index) for host in range(HOSTS) for index in range(DEVICES)]
LEAVES: Places = {device: Place(leaf(device)) for device in DEVICES_OF_ALL}


def pinged(wanted: Wanted, lost: Callable[[End, End], bool], *, hosts: int = HOSTS, gateway: str = "yes") -> list[Ping]:
    """The plan's pings, of which those are lost whose ends `lost` names, in whatever order."""
    plan = plan_pings(cluster(), rows(hosts, DEVICES, gateway=gateway, subnets=True, leaf=3), wanted).pings
    return [
        replace(ping, sent=3, received=0 if lost(own(ping), end(ping)) or lost(end(ping), own(ping)) else 3)
        for ping in plan if ping.purpose == "reach"
    ]  # fmt: skip


def told(pings: Sequence[Ping], places: Places = LEAVES) -> Told:
    found = causes(pings, places)
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
def test_one_gateway_that_does_not_answer_is_named_once(wanted: Wanted) -> None:
    assert told(pinged(wanted, lambda one, _: one == End("10.0.2.254", -1))) == [("silent", ("10.0.2.254",), None)]


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
    assert [kind for kind, *_ in told(slow)] == ["silent", "link", "link"]
    assert causes([replace(ping, sent=0, received=0, error="busy") for ping in pings], LEAVES) == []


def test_a_host_that_is_gone_since_the_first_round_is_named_for_the_pings_it_does_not_answer() -> None:
    pings = [
        replace(ping, sent=0, received=0, error="n2: no answer") if ping.host == "n2" else ping
        for ping in pinged(NEIGHBOURS, lambda one, _: one.host == "n2", gateway="")
        if (ping.host, ping.peer.partition("/")[0]) != ("n4", "n2")
    ]
    assert [(cause.kind, cause.names) for cause in causes(pings, {})] == [("host", ("n2",))]


# Gateways, one a leaf, with a subnet behind each; and devices whose link is down.

SUBNETS: Places = {device: Place(leaf(device), (device.device, int(device.host[1:]) // 3)) for device in DEVICES_OF_ALL}
GATEWAY = {device: End(f"gw-{leaf(device)}", -1) for device in DEVICES_OF_ALL}
N0 = End("n0", 1)
GW0, GW1 = GATEWAY[N0], GATEWAY[End("n3", 1)]


def routed(lost: Callable[[End, End], bool], *, part: int = 0) -> list[Ping]:
    """Every device pings its leaf's gateway and its whole rail; what `lost` names is answered `part` times of three."""
    gateways = [Ping(it.host, it.device, gateway.host, "gateway", sent=3) for it, gateway in GATEWAY.items()]
    every = [*pinged(MESH, lambda *_: False, gateway=""), *gateways]
    return [
        replace(ping, received=part if lost(own(ping), end(ping)) or lost(end(ping), own(ping)) else 3)
        for ping in every
    ]  # fmt: skip


def through(gateway: End) -> Callable[[End, End], bool]:
    """Whether a packet between two devices passes it."""

    def is_lost(one: End, other: End) -> bool:
        ends = {GATEWAY.get(one), GATEWAY.get(other)}
        return gateway in (one, other) or (gateway in ends and len(ends) == 2 and one.device == other.device)

    return is_lost


@pytest.mark.parametrize("part", [0, 2])
def test_gateways_that_refuse_or_limit_icmp_and_forward_are_silent(part: int) -> None:
    found = causes(routed(lambda one, _: one.is_gateway, part=part), SUBNETS)
    assert [(cause.kind, cause.names) for cause in found] == [
        ("silent", (gateway.host,)) for gateway in sorted(set(GATEWAY.values()))
    ]
    assert {len(cause.lost) for cause in found} == {3}


def test_a_gateway_behind_which_nobody_is_reached_is_gone_and_nothing_else_is_named() -> None:
    (cause,) = causes(routed(through(GW0)), SUBNETS)
    assert (cause.kind, cause.names) == ("gateway", (GW0.host,))
    assert len(cause.lost) == cause.total == 3 + 2 * 3 * 3


def test_two_gateways_that_are_gone_are_both_named() -> None:
    lost = [through(GW0), through(GW1)]
    found = causes(routed(lambda one, other: any(it(one, other) for it in lost)), SUBNETS)
    assert [(cause.kind, cause.names) for cause in found] == [("gateway", (GW0.host,)), ("gateway", (GW1.host,))]


def test_a_gateway_is_not_gone_where_one_device_behind_it_is_the_trouble() -> None:
    bad = End("n4", 1)
    pings = routed(lambda one, other: GW0 in (one, other) or bad == one)
    assert told(pings, SUBNETS) == [("silent", (GW0.host,), None), ("device", ("n4",), 1)]


def test_a_gateway_that_answers_others_does_not_take_the_blame_of_a_device_that_reaches_nobody_behind_it() -> None:
    def lost(one: End, other: End) -> bool:
        return one == N0 and (other == GW0 or GATEWAY.get(other) == GW1)

    found = told(routed(lost), SUBNETS)
    assert {kind for kind, *_ in found} == {"link"}
    assert sorted(names for _, names, _ in found) == [
        (f"gateway {GW0.host}", "n0/1"), ("n0/1", "n3/1"), ("n0/1", "n4/1"), ("n0/1", "n5/1"),
    ]  # fmt: skip


def test_one_device_that_its_gateway_alone_does_not_answer_has_a_silent_gateway() -> None:
    assert told(routed(lambda one, other: (one, other) == (N0, GW0)), SUBNETS) == [("silent", (GW0.host,), None)]


def test_a_gateway_is_no_witness_for_who_reaches_nobody_at_all() -> None:
    assert told(routed(lambda one, _: one == N0), SUBNETS) == [("device", ("n0",), 1)]


def test_who_has_only_a_gateway_reaches_it_with_a_part_of_the_packets() -> None:
    (ping,) = (ping for ping in routed(lambda one, _: one == GW0, part=2) if (own(ping), end(ping)) == (N0, GW0))
    assert told([ping], SUBNETS) == [("silent", (GW0.host,), None)]
    assert [kind for kind, *_ in told([replace(ping, received=0)], SUBNETS)] == ["link"]


@pytest.mark.parametrize("down", [[N0], [End(f"n{host}", 1) for host in range(HOSTS)], DEVICES_OF_ALL])
def test_of_devices_whose_link_is_down_no_ping_counts(down: Sequence[End]) -> None:
    places: Places = {device: replace(SUBNETS[device], down=device in down) for device in DEVICES_OF_ALL}
    assert causes(routed(lambda one, _: one in down), places) == []


def test_beside_a_device_whose_link_is_down_another_trouble_is_named() -> None:
    places: Places = {**SUBNETS, N0: replace(SUBNETS[N0], down=True)}
    bad = End("n4", 1)
    (cause,) = causes(routed(lambda one, _: one in (N0, bad)), places)
    assert (cause.kind, cause.names, cause.device) == ("device", ("n4",), 1)
    assert not [ping for ping in cause.lost if N0 in (own(ping), end(ping))]
