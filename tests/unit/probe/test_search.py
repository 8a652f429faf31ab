"""The rounds of a whole run against a model of a fabric: who is named, after how many rounds, and nobody else."""

from dataclasses import replace
from random import Random

import pytest

from preflight.model.cluster import Product
from preflight.model.measure import Located, Scope, TestOutcome
from preflight.probe.rounds import Place, ProbePlan
from tests.unit.fabric_of_probe import Fabric, played
from tests.unit.probe.test_rounds import plan

HANG, SLOW, WRONG = TestOutcome.HANG, TestOutcome.SLOW, TestOutcome.WRONG_DATA


def cluster(hosts: int = 8, devices: int = 2, *, backend: str = "hccl") -> ProbePlan:
    made = plan(hosts, devices, backend=backend, product=Product.ATLAS_A2)
    return replace(made, request=replace(made.request, quick=True))


def named(located: list[Located]) -> set[tuple[str, tuple[str, ...], TestOutcome]]:
    return {(one.kind, one.members, one.outcome) for one in located}


def rounds(fabric: Fabric, scope: Scope) -> int:
    return sum(round_.groups[0].scope is scope for round_ in fabric.rounds if round_.groups)


@pytest.mark.parametrize(("hosts", "devices"), [(2, 8), (2, 1), (8, 2), (30, 8)])
def test_a_healthy_cluster_has_one_round_of_pairs(hosts: int, devices: int) -> None:
    fabric = Fabric()
    run = played(cluster(hosts, devices), fabric)
    assert run.located == []
    assert (rounds(fabric, Scope.PAIR), rounds(fabric, Scope.ALL)) == (1, 1)


def test_an_odd_host_is_tried_in_a_second_round() -> None:
    fabric = Fabric()
    assert played(cluster(9, 2), fabric).located == []
    assert rounds(fabric, Scope.PAIR) == 2
    tried = {member.host for round_ in fabric.rounds[2:] for group in round_.groups for member in group.members}
    assert len(tried) == 9


@pytest.mark.parametrize("hosts", [4, 5, 7])
def test_few_hosts_over_one_rail_meet_all_their_neighbours_so_that_a_median_says_something(hosts: int) -> None:
    run = played(cluster(hosts, 2, backend="gloo"), Fabric(sends={("node02", 0): 2.0}))
    assert named(run.located) == {("host", ("node02",), SLOW)}


@pytest.mark.parametrize(("hosts", "devices"), [(2, 2), (2, 8), (3, 4), (8, 2), (30, 8)])
def test_a_device_that_reaches_nobody_is_named_and_the_rest_do_well_together(hosts: int, devices: int) -> None:
    fabric = Fabric(dead=[("node02", 1)])
    run = played(cluster(hosts, devices), fabric)
    assert named(run.located) == {("device", ("node02/1",), HANG)}
    assert rounds(fabric, Scope.PAIR) <= (4 if hosts != 3 else 5)  # of three, one waits for its turn
    last = [seen.test for seen in run.observations if seen.test.scope is Scope.ALL][-1]
    assert last.outcome is TestOutcome.PASS
    assert len(last.members) == hosts * devices - 1


def test_the_tests_that_convict_come_first_and_then_those_that_acquit_the_partners() -> None:
    run = played(cluster(), Fabric(dead=[("node02", 1)]))
    (one,) = run.located
    outcomes = {seen.test.id: seen.test for seen in run.observations}
    tests = [outcomes[id_] for id_ in one.tests]
    against = [test for test in tests if test.outcome is HANG]
    assert tests[: len(against)] == against
    partners = {member.host for test in against for member in test.members} - {"node02"}
    assert len(partners) >= 2
    assert partners <= {member.host for test in tests[len(against) :] for member in test.members}


@pytest.mark.parametrize(("way", "direction"), [("sends", "sends"), ("receives", "receives"), ("both", "both")])
def test_which_way_a_device_is_slow_is_told(way: str, direction: str) -> None:
    slow = {("node05", 0): 2.0}
    fabric = Fabric(sends=slow if way != "receives" else {}, receives=slow if way != "sends" else {})
    (one,) = played(cluster(), fabric).located
    assert (one.kind, one.members, one.outcome, one.direction) == ("device", ("node05/0",), SLOW, direction)


@pytest.mark.parametrize("after", [2, 3, 4])
def test_a_device_that_is_slow_first_and_hangs_later_is_named_and_not_its_partner(after: int) -> None:
    lossy = ("node05", 0)
    run = played(cluster(), Fabric(sends={lossy: 0.2}, stalls={lossy: after}))
    assert {(one.kind, one.members) for one in run.located} == {("device", ("node05/0",))}
    last = [seen.test for seen in run.observations if seen.test.scope is Scope.ALL][-1]
    assert (last.outcome, len(last.members)) == (TestOutcome.PASS, 15)


@pytest.mark.parametrize("seed", range(5))
def test_a_device_that_hangs_and_is_slow_by_turns_is_named_soon(seed: int) -> None:
    fabric = Fabric(lossy=[("node05", 0)])
    run = played(cluster(), fabric, seed=seed)
    assert {(one.kind, one.members) for one in run.located} == {("device", ("node05/0",))}
    assert rounds(fabric, Scope.PAIR) <= 5


def test_a_host_is_named_as_a_whole_where_all_its_devices_are_slow() -> None:
    slow = {("node05", index): 2.0 for index in range(4)}
    (one,) = played(cluster(devices=4), Fabric(receives=slow)).located
    assert (one.kind, one.members, one.outcome, one.direction) == ("host", ("node05",), SLOW, "receives")


def test_a_rail_on_which_nothing_passes_is_named_as_a_whole() -> None:
    run = played(cluster(), Fabric(cut=lambda one, other: one[1] == other[1] == 1 and one[0] != other[0]))
    assert {(kind, len(members)) for kind, members, _ in named(run.located)} == {("rail", 8)}


def test_where_nothing_passes_it_is_the_system_and_nobody_is_named() -> None:
    run = played(cluster(), Fabric(cut=lambda one, other: one[0] != other[0]))
    assert named(run.located) == {("system", (), HANG)}


def test_two_halves_that_do_not_reach_each_other_are_named_as_groups() -> None:
    def side(place: Place) -> bool:
        return int(place[0][4:]) <= 4

    run = played(cluster(), Fabric(cut=lambda one, other: side(one) != side(other)))
    groups = {members for kind, members, _ in named(run.located) if kind == "partition"}
    assert groups == {tuple(f"node0{number}" for number in half) for half in ((1, 2, 3, 4), (5, 6, 7, 8))}
    assert len(run.located) == 2


@pytest.mark.parametrize("restless", [1.0, 0.6])
@pytest.mark.parametrize("seed", range(5))
def test_a_leaf_that_is_cut_off_is_found_in_six_rounds_also_where_machines_are_restless(
    seed: int, restless: float
) -> None:
    def leaf(place: Place) -> str:
        return f"leaf{(int(place[0][-2:]) - 1) // 2}"

    fabric = Fabric(cut=lambda one, other: (leaf(one) == "leaf0") != (leaf(other) == "leaf0"), restless=restless)
    run = played(cluster(8), fabric, leaves=leaf, seed=seed)
    apart = {members for kind, members, _ in named(run.located) if kind == "partition"}
    assert ("node01", "node02") in apart
    assert {kind for kind, _, _ in named(run.located)} == {"partition"}
    assert rounds(fabric, Scope.PAIR) <= 6


def test_one_leaf_whose_uplink_is_slow_is_a_group_by_itself() -> None:
    def leaf(place: Place) -> str:
        return f"leaf{(int(place[0][4:]) - 1) // 2}"

    class OneSlowUplink(Fabric):
        def _speed(self, places: list[Place], root: int | None) -> float:
            behind = {leaf(place) for place in places}
            return 2.0 if "leaf1" in behind and len(behind) > 1 else super()._speed(places, root)

    run = played(cluster(), OneSlowUplink(), leaves=leaf)
    groups = {members: outcome for kind, members, outcome in named(run.located) if kind == "partition"}
    assert groups[("node03", "node04")] is SLOW
    assert not [one for one in run.located if one.kind in ("host", "device", "link")]


def test_who_sends_wrong_data_is_found_by_pairs_too() -> None:
    assert named(played(cluster(), Fabric(wrong=[("node07", 1)])).located) == {("device", ("node07/1",), WRONG)}


def test_a_fault_that_only_many_hosts_have_is_narrowed_to_the_smallest_group() -> None:
    fabric = Fabric(too_many=5)
    run = played(cluster(), fabric)
    (one,) = run.located
    assert (one.kind, len(one.members), one.outcome) == ("scale", 5, HANG)


def test_a_crawl_of_all_together_is_looked_for_although_all_pairs_are_fast() -> None:
    large = cluster()
    large = replace(large, request=replace(large.request, sizes=(8, 256 << 20)))
    run = played(large, Fabric(crawls=6))
    (one,) = run.located
    assert (one.kind, len(one.members), one.outcome) == ("scale", 6, SLOW)
    assert SLOW in {seen.test.outcome for seen in run.observations if seen.test.scope is Scope.ALL}


def test_of_small_sizes_nobody_says_that_all_together_are_slow() -> None:
    """16 MiB for 16 ranks: what is measured is latency."""
    assert played(cluster(), Fabric(crawls=6)).located == []


def test_what_is_wrong_on_one_rail_and_otherwise_on_the_other_is_two_devices() -> None:
    run = played(cluster(), Fabric(dead=[("node02", 1)], sends={("node02", 0): 2.0}))
    assert named(run.located) == {("device", ("node02/1",), HANG), ("device", ("node02/0",), SLOW)}


def test_devices_that_do_not_reach_each_other_across_rails_convict_nobody_else() -> None:
    cut = {("node02", 1), ("node03", 0)}
    run = played(cluster(4), Fabric(cut=lambda one, other: {one, other} == cut))
    assert all(one.kind == "link" and set(one.members) == {"node02", "node03"} for one in run.located)
    assert run.located


def test_devices_of_one_host_that_do_not_reach_each_other_are_their_host_s() -> None:
    cut = {("node02", 1), ("node02", 0)}
    run = played(cluster(), Fabric(cut=lambda one, other: {one, other} == cut))
    assert named(run.located) == {("host", ("node02",), HANG)}


@pytest.mark.parametrize("dead", [[], [("node08", 0)]], ids=["alone", "beside a dead device"])
def test_a_link_is_named_once(dead: list[Place]) -> None:
    healthy = Fabric()
    played(cluster(), healthy)  # the same seed has the same first pairs
    ends = next(group.members for round_ in healthy.rounds for group in round_.groups if group.scope is Scope.PAIR)
    cut = {(member.host, member.device) for member in ends}
    run = played(cluster(), Fabric(dead=dead, cut=lambda one, other: {one, other} == cut))
    links = [one for one in run.located if one.kind == "link"]
    assert [set(one.members) for one in links] == [{member.place for member in ends}]
    assert len(run.located) == 1 + len(dead)


def test_three_hosts_with_one_slow_are_enough_to_name_it() -> None:
    assert named(played(cluster(3, 1), Fabric(sends={("node02", 0): 2.0})).located) == {("host", ("node02",), SLOW)}


def test_a_rail_between_two_hosts_is_a_rail() -> None:
    run = played(cluster(2, 8), Fabric(cut=lambda one, other: 3 in (one[1], other[1]) and one[0] != other[0]))
    assert named(run.located) == {("rail", ("node01/3", "node02/3"), HANG)}


def test_two_hosts_without_a_rail_in_common_are_tried_across() -> None:
    even = cluster(2, 4)
    halves = (even.hosts[0].devices[:2], even.hosts[1].devices[2:])
    hosts = tuple(replace(host, devices=own) for host, own in zip(even.hosts, halves, strict=True))
    uneven = replace(even, hosts=hosts, cluster=replace(even.cluster, hosts=hosts))
    assert named(played(uneven, Fabric(dead=[("node02", 3)])).located) == {("device", ("node02/3",), HANG)}


def test_of_two_hosts_over_one_nic_it_is_left_open_which() -> None:
    fabric = Fabric(dead=[("node02", 0)])
    run = played(cluster(2, 1, backend="gloo"), fabric)
    assert run.located == []
    assert len(fabric.rounds) < 8


def test_what_is_broken_by_itself_takes_part_in_nothing_after_that() -> None:
    fabric = Fabric(ill=[("node03", 0)])
    assert played(cluster(), fabric).located == []
    later = [member for round_ in fabric.rounds[1:] for group in round_.groups for member in group.members]
    assert ("node03", 0) not in {(member.host, member.device) for member in later}


@pytest.mark.parametrize("after", [2, 3, 4, 5])
def test_a_host_that_dies_between_rounds_is_not_convicted_for_it_and_holds_nobody_up(after: int) -> None:
    run = played(cluster(), Fabric(dead=[("node02", 1)], dies={"node06": after}))
    assert named(run.located) == {("device", ("node02/1",), HANG)}


def test_where_all_but_one_host_die_nobody_is_named() -> None:
    run = played(cluster(), Fabric(dies={f"node0{number}": 2 for number in range(2, 9)}))
    assert run.located == []


def test_a_host_that_is_known_not_to_be_reached_holds_up_nobody() -> None:
    run = played(
        cluster(), fabric := Fabric(cut=lambda one, other: "node05" in (one[0], other[0])), unreached=["node05"]
    )
    assert run.located == []
    assert {seen.test.outcome for seen in run.observations} == {TestOutcome.PASS}
    alone, *together = fabric.rounds
    assert ("node05", 0) in {(member.host, member.device) for group in alone.groups for member in group.members}
    assert "node05" not in {it.host for round_ in together for group in round_.groups for it in group.members}


def test_devices_that_few_hosts_have_are_tried_with_those_that_have_them() -> None:
    even = cluster(6, 4)
    hosts = tuple(
        replace(host, devices=host.devices[: 2 if number % 2 else 4]) for number, host in enumerate(even.hosts)
    )
    uneven = replace(even, hosts=hosts, cluster=replace(even.cluster, hosts=hosts))
    assert named(played(uneven, Fabric(dead=[("node03", 3)])).located) == {("device", ("node03/3",), HANG)}


@pytest.mark.parametrize("seed", range(40))
def test_any_mix_of_few_faults_is_named_exactly(seed: int) -> None:
    random = Random(seed)
    hosts, devices = random.randint(6, 24), random.choice((1, 2, 4))
    every = cluster(hosts, devices)
    places = every.places()
    bad = random.sample(places, random.randint(0, max(1, hosts // 4)))
    cut = random.randrange(len(bad) + 1)
    fabric = Fabric(dead=bad[:cut], sends=dict.fromkeys(bad[cut:], 2.0))
    run = played(every, fabric, seed=seed)
    found = {
        (host, index) for one in run.located for host, index in places
        if one.kind in ("host", "device") and {host, f"{host}/{index}"} & set(one.members)
    }  # fmt: skip
    assert found == set(bad)
    assert {one.kind for one in run.located} <= {"host", "device"}
    assert rounds(fabric, Scope.PAIR) <= 8  # who fails first, then who is slow
