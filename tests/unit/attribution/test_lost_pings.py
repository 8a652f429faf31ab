"""Lost pings are counted: one cause is named once, whatever the plan that met it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pytest

from preflight.attribution.lost_pings import causes
from preflight.attribution.ping_types import Attachment, Attachments, PingEnd, end, own
from preflight.facts.pings.plan import PingScope, plan_pings
from preflight.model.ping import Ping
from tests.unit.facts.test_pings import ALL, CROSS, MESH, NEIGHBOURS, cluster, rows

HOSTS, DEVICES = 6, 4
PLANS = pytest.mark.parametrize("wanted", [NEIGHBOURS, MESH, CROSS, ALL], ids=["neighbours", "mesh", "cross", "all"])
Told = list[tuple[str, tuple[str, ...], int | None]]


def leaf(device: PingEnd) -> str:
    """Two leaves a rail, three hosts behind each."""
    return f"leaf{device.device}-{int(device.host[1:]) // 3}"


DEVICES_OF_ALL = [PingEnd(f"n{host}", index) for host in range(HOSTS) for index in range(DEVICES)]
LEAVES: Attachments = {device: Attachment(leaf(device)) for device in DEVICES_OF_ALL}


def pinged(
    wanted: PingScope,
    lost: Callable[[PingEnd, PingEnd], bool],
    *,
    hosts: int = HOSTS,
    gateway: str = "yes",
    behind: int = 3,
) -> list[Ping]:
    """The plan's pings, of which those are lost whose ends `lost` names, in whatever order; `behind`: hosts a leaf."""
    plan = plan_pings(cluster(), rows(hosts, DEVICES, gateway=gateway, subnets=True, leaf=behind), wanted).pings
    return [
        replace(ping, sent=3, received=0 if lost(own(ping), end(ping)) or lost(end(ping), own(ping)) else 3)
        for ping in plan if ping.purpose == "reach"
    ]  # fmt: skip


def told(pings: Sequence[Ping], places: Attachments = LEAVES) -> Told:
    found = causes(pings, places)
    lost = [ping for ping in pings if ping.received < ping.sent]
    assert set(lost) == {ping for cause in found for ping in cause.lost}, "each is explained"
    return [(cause.kind, cause.names, cause.device) for cause in found]


@PLANS
def test_where_nothing_is_lost_nothing_is_named(wanted: PingScope) -> None:
    assert told(pinged(wanted, lambda one, other: False)) == []  # noqa: ARG005


@PLANS
def test_a_device_that_reaches_its_gateway_alone_is_at_fault(wanted: PingScope) -> None:
    def lost(one: PingEnd, other: PingEnd) -> bool:
        return one == PingEnd("n2", 1) and not other.is_gateway

    assert told(pinged(wanted, lost)) == [("device", ("n2",), 1)]


@PLANS
def test_one_bad_device_is_named_once(wanted: PingScope) -> None:
    assert told(pinged(wanted, lambda one, _: one == PingEnd("n2", 1))) == [("device", ("n2",), 1)]


@PLANS
def test_one_bad_rail_is_named_once(wanted: PingScope) -> None:
    assert told(pinged(wanted, lambda one, _: one.device == 1)) == [("rail", (), 1)]


@PLANS
@pytest.mark.parametrize("gateway", ["yes", ""])
def test_one_host_without_its_network_is_named_once(wanted: PingScope, gateway: str) -> None:
    assert told(pinged(wanted, lambda one, _: one.host == "n2", gateway=gateway)) == [("host", ("n2",), None)]


@PLANS
def test_one_gateway_that_does_not_answer_is_named_once(wanted: PingScope) -> None:
    assert told(pinged(wanted, lambda one, _: one == PingEnd("10.0.2.254", -1))) == [("silent", ("10.0.2.254",), None)]


@PLANS
def test_everything_is_one_cause(wanted: PingScope) -> None:
    assert told(pinged(wanted, lambda *_: True)) == [("fabric", (), None)]


@PLANS
def test_one_link_stays_a_link(wanted: PingScope) -> None:
    assert told(pinged(wanted, lambda one, other: (one, other) == (PingEnd("n0", 3), PingEnd("n1", 3)))) == [
        ("link", ("n0/3", "n1/3"), None)
    ]


def test_leaves_are_not_named_where_pings_are_lost_inside_one_of_them() -> None:
    def lost(one: PingEnd, other: PingEnd) -> bool:
        return {one.host, other.host} in ({"n0", "n3"}, {"n1", "n4"}, {"n0", "n1"}) and one.device == other.device == 1

    assert {kind for kind, *_ in told(pinged(MESH, lost))} == {"link"}


def test_two_hosts_that_reach_everybody_else_are_named_together() -> None:
    assert told(pinged(MESH, lambda one, other: {one.host, other.host} == {"n0", "n1"})) == [
        ("hosts", ("n0", "n1"), None)
    ]


def test_two_hosts_alone_are_nobody_s_word_against_the_other() -> None:
    def lost(one: PingEnd, other: PingEnd) -> bool:
        return one.device == other.device == 1

    assert told(pinged(NEIGHBOURS, lost, hosts=2, gateway="")) == [("link", ("n0/1", "n1/1"), None)]


def test_a_rail_is_not_named_for_the_devices_that_do_not_reach_their_gateway_either() -> None:
    def lost(one: PingEnd, other: PingEnd) -> bool:  # of three hosts two have a bad device 1; the third one's is good
        return one in (PingEnd("n0", 1), PingEnd("n1", 1)) or {one, other} == {PingEnd("n2", 1), PingEnd("n0", 1)}

    assert told(pinged(NEIGHBOURS, lost, hosts=3)) == [("device", ("n0",), 1), ("device", ("n1",), 1)]


def test_one_lost_packet_of_three_counts_and_one_that_could_not_be_sent_does_not() -> None:
    pings = pinged(NEIGHBOURS, lambda one, other: False)  # noqa: ARG005
    slow = [replace(ping, received=2) if own(ping) == PingEnd("n0", 0) else ping for ping in pings]
    assert [kind for kind, *_ in told(slow)] == ["silent", "link", "link"]  # none was repeated
    assert causes([replace(ping, sent=0, received=0, error="busy") for ping in pings], LEAVES) == []


def test_a_host_that_is_gone_since_the_first_round_is_named_for_the_pings_it_does_not_answer() -> None:
    pings = [
        replace(ping, sent=0, received=0, error="n2: no answer") if ping.host == "n2" else ping
        for ping in pinged(NEIGHBOURS, lambda one, _: one.host == "n2", gateway="")
        if (ping.host, ping.peer.partition("/")[0]) != ("n4", "n2")
    ]
    assert [(cause.kind, cause.names) for cause in causes(pings, {})] == [("host", ("n2",))]


# Gateways, one a leaf, with a subnet behind each; and devices whose link is down.

SUBNETS: Attachments = {
    device: Attachment(leaf(device), (device.device, int(device.host[1:]) // 3)) for device in DEVICES_OF_ALL
}
GATEWAY = {device: PingEnd(f"gw-{leaf(device)}", -1) for device in DEVICES_OF_ALL}
N0 = PingEnd("n0", 1)
GW0, GW1 = GATEWAY[N0], GATEWAY[PingEnd("n3", 1)]


def routed(lost: Callable[[PingEnd, PingEnd], bool], *, part: int = 0) -> list[Ping]:
    """Every device pings its leaf's gateway and its whole rail; what `lost` names is answered `part` times of three."""
    gateways = [Ping(it.host, it.device, gateway.host, "gateway", sent=3) for it, gateway in GATEWAY.items()]
    every = [*pinged(MESH, lambda *_: False, gateway=""), *gateways]
    return [
        replace(ping, received=part if lost(own(ping), end(ping)) or lost(end(ping), own(ping)) else 3)
        for ping in every
    ]  # fmt: skip


def through(gateway: PingEnd) -> Callable[[PingEnd, PingEnd], bool]:
    """Whether a packet between two devices passes it."""

    def is_lost(one: PingEnd, other: PingEnd) -> bool:
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
    bad = PingEnd("n4", 1)
    pings = routed(lambda one, other: GW0 in (one, other) or bad == one)
    assert told(pings, SUBNETS) == [("silent", (GW0.host,), None), ("device", ("n4",), 1)]


def test_a_gateway_that_answers_others_does_not_take_the_blame_of_a_device_that_reaches_nobody_behind_it() -> None:
    def lost(one: PingEnd, other: PingEnd) -> bool:
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


@pytest.mark.parametrize("down", [[N0], [PingEnd(f"n{host}", 1) for host in range(HOSTS)], DEVICES_OF_ALL])
def test_of_devices_whose_link_is_down_no_ping_counts(down: Sequence[PingEnd]) -> None:
    places: Attachments = {device: replace(SUBNETS[device], down=device in down) for device in DEVICES_OF_ALL}
    assert causes(routed(lambda one, _: one in down), places) == []


def test_beside_a_device_whose_link_is_down_another_trouble_is_named() -> None:
    places: Attachments = {**SUBNETS, N0: replace(SUBNETS[N0], down=True)}
    bad = PingEnd("n4", 1)
    (cause,) = causes(routed(lambda one, _: one in (N0, bad)), places)
    assert (cause.kind, cause.names, cause.device) == ("device", ("n4",), 1)
    assert not [ping for ping in cause.lost if N0 in (own(ping), end(ping))]


# Parts that reach themselves and not each other.

EIGHT, QUARTER = 8, {"n1", "n6"}
RAILS = pytest.mark.parametrize("rails", [{1}, {1, 2}, set(range(DEVICES))], ids=["one rail", "two", "all"])
Lost = Callable[[PingEnd, PingEnd], bool]


def apart(part: Collection[str], rails: Collection[int] = range(DEVICES), beyond: Collection[str] = ()) -> Lost:
    """Between the devices of these hosts and the others, on these rails; `beyond`: gateways that are among these."""

    def lost(one: PingEnd, other: PingEnd) -> bool:
        if one.is_gateway or other.is_gateway:
            return bool({one.host, other.host} & set(beyond)) and bool({one.host, other.host} & set(part))
        return (one.host in part) != (other.host in part) and {one.device, other.device} <= set(rails)

    return lost


def parted(pings: Sequence[Ping], places: Attachments) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The members of each part that is named, and the leaves; no other cause is."""
    found = causes(pings, places)
    assert {cause.kind for cause in found} == {"partition"}
    assert {ping for cause in found for ping in cause.lost} == {ping for ping in pings if not ping.received}
    assert all(cause.total == len(cause.lost) for cause in found)
    return [(cause.members, cause.names) for cause in found]


def devices_of(hosts: Collection[str], rails: Collection[int]) -> tuple[str, ...]:
    return tuple(f"{host}/{rail}" for host in sorted(hosts) for rail in sorted(rails))


@PLANS
def test_of_two_leaves_that_are_apart_both_are_named_and_nobody_is_convicted(wanted: PingScope) -> None:
    found = parted(pinged(wanted, apart({"n0", "n1", "n2"})), LEAVES)
    assert sorted(found) == [
        (("n0", "n1", "n2"), tuple(f"leaf{rail}-0" for rail in range(DEVICES))),
        (("n3", "n4", "n5"), tuple(f"leaf{rail}-1" for rail in range(DEVICES))),
    ]


@pytest.mark.parametrize("wanted", [NEIGHBOURS, MESH], ids=["neighbours", "mesh"])
@RAILS
def test_leaves_may_be_apart_on_some_rails_only(wanted: PingScope, rails: set[int]) -> None:
    some = pinged(wanted, apart({"n0", "n1", "n2"}, rails))
    first, *_ = sorted(parted(some, LEAVES))
    members = ("n0", "n1", "n2") if len(rails) == DEVICES else devices_of({"n0", "n1", "n2"}, rails)
    assert first == (members, tuple(f"leaf{rail}-0" for rail in sorted(rails)))


@RAILS
def test_a_quarter_that_is_cut_off_is_named_and_the_three_quarters_are_not(rails: set[int]) -> None:
    (found,) = parted(pinged(MESH, apart(QUARTER, rails), hosts=EIGHT, behind=0), {})
    assert found == (("n1", "n6") if len(rails) == DEVICES else devices_of(QUARTER, rails), ())


def test_what_is_cut_off_on_one_rail_from_all_rails_is_named_without_them() -> None:
    def lost(one: PingEnd, other: PingEnd) -> bool:
        return len({it.host in QUARTER and it.device == 1 for it in (one, other)}) == 2

    (found,) = parted(pinged(ALL, lost, hosts=EIGHT, behind=0), {})
    assert found == (("n1/1", "n6/1"), ())


@pytest.mark.parametrize("rails", [{1}, set(range(DEVICES))], ids=["one rail", "all"])
@pytest.mark.parametrize("bad", [PingEnd("n3", 1), PingEnd("n6", 1)], ids=["among the others", "in the part"])
def test_beside_a_part_that_is_cut_off_a_bad_device_is_named_by_itself(rails: set[int], bad: PingEnd) -> None:
    part, is_cut = {"n1", "n4", "n6"}, apart({"n1", "n4", "n6"}, rails)
    pings = pinged(MESH, lambda one, other: bad in (one, other) or is_cut(one, other), hosts=EIGHT, behind=0)
    cut, device = causes(pings, {})
    assert (device.kind, device.names, device.device, device.part) == ("device", (bad.host,), 1, False)
    members = sorted(part) if len(rails) > 1 else [name for name in devices_of(part, {1}) if name != str(bad)]
    assert (cut.kind, list(cut.members)) == ("partition", members)
    assert not set(cut.others) & {str(bad), *cut.members}


@PLANS
def test_a_gateway_beyond_is_lost_with_the_others_and_one_that_answers_all_joins_nothing(wanted: PingScope) -> None:
    for beyond in ([], ["10.0.1.254"]):
        pings = pinged(wanted, apart({"n4", "n5"}, beyond=beyond))
        ((members, _),) = parted(pings, {})
        assert members == ("n4", "n5")
    larger = pinged(wanted, apart({"n0", "n1", "n2", "n3"}, beyond=["10.0.1.254"]))
    assert [members for members, _ in parted(larger, {})] == [("n4", "n5")]


def test_neighbours_without_lldp_tell_it_from_all_rails_together() -> None:
    found = parted(pinged(NEIGHBOURS, apart({"n0", "n1", "n2"}), behind=0), {})
    assert sorted(members for members, _ in found) == [("n0", "n1", "n2"), ("n3", "n4", "n5")]


def test_neighbours_of_one_rail_ask_too_few_to_tell_a_part_from_links_and_say_so() -> None:
    cut = apart({"n0", "n1", "n2"}, {1})
    assert [(cause.kind, cause.part) for cause in causes(pinged(NEIGHBOURS, cut, behind=0), {})] == [("link", True)] * 2
    assert {cause.kind for cause in causes(pinged(MESH, cut, behind=0), {})} == {"partition"}


@pytest.mark.parametrize("rails", [{1}, set(range(DEVICES))], ids=["devices", "hosts"])
def test_who_is_cut_off_from_all_that_it_asked_may_be_a_part_until_a_mesh_tells(rails: set[int]) -> None:
    kind = "device" if len(rails) == 1 else "host"
    few = causes(pinged(NEIGHBOURS, apart(QUARTER, rails), hosts=EIGHT, behind=0, gateway=""), {})
    assert [(cause.kind, cause.names, cause.part) for cause in few] == [(kind, ("n1",), True), (kind, ("n6",), True)]

    def broken(one: PingEnd, _: PingEnd) -> bool:
        return one.host in QUARTER and one.device in rails

    every = causes(pinged(MESH, broken, hosts=EIGHT, behind=0), {})
    assert [(cause.kind, cause.names, cause.part) for cause in every] == [
        (kind, ("n1",), False),
        (kind, ("n6",), False),
    ]


def test_a_leaf_is_not_named_where_others_behind_it_are_well() -> None:
    one_leaf: Attachments = {device: Attachment(f"leaf{int(device.host[1:]) // 3}") for device in DEVICES_OF_ALL}
    found = parted(pinged(MESH, apart({"n0", "n1", "n2"}, {1})), one_leaf)
    assert [leaves for _, leaves in found] == [(), ()]
    across = causes(pinged(ALL, apart({"n0", "n1", "n2"}, {1})), one_leaf)
    assert "partition" not in {cause.kind for cause in across}


def test_of_three_leaves_the_one_that_is_cut_off_is_named() -> None:
    three: Attachments = {device: Attachment(f"leaf{int(device.host[1:]) // 2}") for device in DEVICES_OF_ALL}
    for wanted in (NEIGHBOURS, MESH):
        assert parted(pinged(wanted, apart({"n2", "n3"}), behind=2), three) == [(("n2", "n3"), ("leaf1",))]


def test_two_leaves_that_both_reach_a_third_are_named_without_it() -> None:
    three: Attachments = {device: Attachment(f"leaf{int(device.host[1:]) // 2}") for device in DEVICES_OF_ALL}

    def lost(one: PingEnd, other: PingEnd) -> bool:
        return {three.get(one), three.get(other)} == {Attachment("leaf0"), Attachment("leaf2")}

    assert told(pinged(MESH, lost, behind=2), three) == [("leaves", ("leaf0", "leaf2"), None)]


def test_one_bad_cable_of_several_between_two_leaves_is_named_by_the_leaves() -> None:
    def lost(one: PingEnd, other: PingEnd) -> bool:  # what a switch hashes to this cable
        across = not one.is_gateway and not other.is_gateway and leaf(one) != leaf(other)
        return across and one.device == other.device == 1 and (int(one.host[1:]) + int(other.host[1:])) % 3 == 0

    assert told(pinged(MESH, lost)) == [("leaves", ("leaf1-0", "leaf1-1"), None)]


def test_a_part_of_the_packets_that_comes_back_is_no_partition() -> None:
    some = [
        replace(ping, received=1) if not ping.received else ping
        for ping in pinged(MESH, apart({"n0", "n1", "n2"}), behind=0)
    ]
    assert "partition" not in {cause.kind for cause in causes(some, {})}


def repeated(received: dict[tuple[str, str], int], sent: int = 24) -> list[Ping]:
    """Pings among five hosts on rail 0. The given ones lost packets; `sent` packets each."""
    hosts = [f"n{number}" for number in range(5)]
    return [
        Ping(one, 0, f"10.0.0.{other[1:]}", f"{other}/0", sent=sent, received=received.get((one, other), sent))
        for one in hosts for other in hosts if one < other
    ]  # fmt: skip


def test_a_lossy_device_is_named_although_one_of_its_pairs_lost_nothing_by_chance() -> None:
    pings = repeated({("n0", "n1"): 22, ("n0", "n2"): 21})
    (cause,) = causes(pings, {})
    assert (cause.kind, cause.names, cause.device) == ("device", ("n0",), 0)
    assert (len(cause.lost), cause.total, cause.peers) == (2, 4, 4)
    assert (cause.packets, cause.answered) == (96, 91)


def test_links_stay_links_if_the_other_pairs_of_their_device_cannot_be_good_by_chance() -> None:
    pings = repeated({("n0", "n1"): 4, ("n0", "n2"): 6})  # 79% of the packets
    assert [cause.kind for cause in causes(pings, {})] == ["link", "link"]


def test_dead_links_and_pings_that_were_not_repeated_make_no_lossy_device() -> None:
    dead = [
        replace(ping, sent=3) if not ping.received else ping for ping in repeated({("n0", "n1"): 0, ("n0", "n2"): 0})
    ]
    assert [cause.kind for cause in causes(dead, {})] == ["link", "link"]
    once = repeated({("n0", "n1"): 2, ("n0", "n2"): 2}, sent=3)
    assert [cause.kind for cause in causes(once, {})] == ["link", "link"]


def test_losses_that_no_rate_of_the_device_explains_are_those_of_links() -> None:
    mesh = [Ping("n0", 0, f"10.0.0.{peer}", f"n{peer}/0", sent=24, received=24) for peer in range(1, 64)]
    pings = [replace(ping, received=21) if ping.peer in ("n1/0", "n2/0") else ping for ping in mesh]
    assert [cause.kind for cause in causes(pings, {})] == ["link", "link"]


def test_two_lossy_devices_behind_two_leaves_are_both_named_and_each_lost_ping_once() -> None:
    places: Attachments = {PingEnd(f"n{number}", 0): Attachment(leaf) for number, leaf in enumerate("abbaa")}
    lossy = {("n0", "n1"): 22, ("n0", "n2"): 22, ("n0", "n3"): 21, ("n1", "n3"): 22, ("n1", "n4"): 21}
    found = causes(repeated(lossy), places)
    assert [(cause.kind, cause.names) for cause in found] == [("device", ("n0",)), ("device", ("n1",))]
    assert sum(len(cause.lost) for cause in found) == len(lossy)


def test_of_two_devices_with_as_many_bad_pairs_none_is_named() -> None:
    pings = repeated({("n0", "n1"): 22, ("n1", "n2"): 22, ("n2", "n3"): 22})
    assert [cause.kind for cause in causes(pings, {})] == ["link", "link", "link"]


def test_a_device_is_not_named_if_another_loses_packets_between_the_same_leaves() -> None:
    places: Attachments = {PingEnd(f"n{number}", 0): Attachment(leaf) for number, leaf in enumerate("abbaa")}
    alone = {("n0", "n1"): 22, ("n0", "n2"): 22}
    assert [cause.kind for cause in causes(repeated(alone), places)] == ["device"]
    others = {("n1", "n3"): 23, ("n0", "n3"): 23}
    assert {cause.kind for cause in causes(repeated(alone | others), places)} == {"link"}
