"""Which tests are run by whom, and what follows from how the rails did."""

from ipaddress import IPv4Address, IPv4Interface

import pytest

from preflight.model.cluster import Cluster, Device, Fabric, Host, Product
from preflight.model.measure import Member, Observation, RankView, TestOutcome, TestResult
from preflight.probe.pairs import slow_below, with_slow
from preflight.probe.request import Request
from preflight.probe.rounds import ProbePlan


def plan(hosts: int = 2, devices: int = 4, *, backend: str = "hccl", product: Product = Product.ATLAS_A1,
         fabric: Fabric = Fabric.SWITCHED, crowded: bool = False, subnets: int = 1) -> ProbePlan:  # fmt: skip
    """`subnets`: device i has an address in subnet i mod subnets, and no gateway."""
    named = tuple(
        Host(
            f"node{number:02}",
            f"10.0.0.{number}",
            devices=tuple(
                Device(index, IPv4Interface(f"192.168.{index % subnets}.{8 * number + index}/24"))
                for index in range(devices)
            ),
        )
        for number in range(1, hosts + 1)
    )
    return ProbePlan(
        Cluster("t", product, named, fabric=fabric), named, Request(backend, (8, 1 << 20, 16 << 20)), crowded
    )


def places(pair: tuple[Member, ...]) -> str:
    return " ".join(f"{int(member.host[4:])}/{member.device}" for member in pair)


def seen(pair: tuple[Member, ...], busbw: float = 1.0, outcome: TestOutcome = TestOutcome.PASS) -> Observation:
    test = TestResult("r2-0", "all_reduce", "float32", 1 << 20, None, pair, outcome, "closed", 0, 0.1, busbw, busbw)
    return Observation(test, tuple(RankView(member, "closed") for member in pair))


def test_the_world_round_has_every_device_and_every_root() -> None:
    (world,) = plan(2, 8).all_devices(1).groups
    assert [member.rank for member in world.members] == list(range(16))
    assert [places((member,)) for member in world.members][7:9] == ["1/7", "2/0"]
    assert {test.root for test in world.tests} == {None, *range(16)}
    assert {test.bytes for test in world.tests if test.op == "all_reduce"} >= {8, 1 << 20, 16 << 20}


@pytest.mark.parametrize("product", Product)
def test_float32_and_int32_are_always_tested_and_no_type_that_the_product_lacks(product: Product) -> None:
    (world,) = plan(product=product).all_devices(1).groups
    dtypes = {test.dtype for test in world.tests}
    assert {"float32", "int32"} <= dtypes
    assert ("bfloat16" in dtypes) == (product is not Product.ATLAS_A1)


@pytest.mark.parametrize("hosts", [2, 9, 31])
def test_in_every_type_every_rank_has_an_element_of_its_own(hosts: int) -> None:
    (world,) = plan(hosts, 7, product=Product.ATLAS_A2).all_devices(1).groups
    width = {"int8": 1, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}
    small = [test for test in world.tests if test.op == "all_reduce" and test.dtype in width]
    assert {test.dtype for test in small} == set(width)
    assert all(test.bytes % width[test.dtype] == 0 for test in small)
    assert all(test.bytes // width[test.dtype] >= len(world.members) for test in small if width[test.dtype] <= 2)


def test_a_host_without_devices_takes_part_with_one_rank() -> None:
    (world,) = plan(2, 0, product=Product.CPU, backend="gloo").all_devices(1).groups
    assert len(world.members) == 2


@pytest.mark.parametrize(("hosts", "rounds"), [(2, 1), (3, 3), (4, 2), (5, 3), (16, 2)])
def test_neighbours_in_the_ring_meet_on_every_rail_in_few_disjoint_rounds(hosts: int, rounds: int) -> None:
    found = plan(hosts, 4).neighbours()
    assert len(found) == rounds
    for pairs in found:
        used = [(member.host, member.device) for pair in pairs for member in pair]
        assert len(used) == len(set(used))
    met = {places(pair) for pairs in found for pair in pairs}
    assert len(met) == 4 * (hosts if hosts > 2 else 1)
    assert all(len({member.device for member in pair}) == 1 for pairs in found for pair in pairs)


def test_over_gloo_one_pair_stands_for_all_rails_of_two_hosts() -> None:
    assert [[places(pair) for pair in pairs] for pairs in plan(2, 8, backend="gloo").neighbours()] == [["1/0 2/0"]]


def test_devices_that_only_one_of_two_hosts_has_are_on_no_rail() -> None:
    full = plan(2, 4)
    short = Host("node02", "10.0.0.2", devices=full.hosts[1].devices[:2])
    uneven = ProbePlan(full.cluster, (full.hosts[0], short), full.request)
    assert [places(pair) for pair in uneven.neighbours()[0]] == ["1/0 2/0", "1/1 2/1"]


def test_a_single_host_pairs_its_own_devices() -> None:
    assert [places(pair) for pair in plan(1, 5).neighbours()[0]] == ["1/0 1/1", "1/2 1/3"]


def test_crowded_hosts_take_turns_and_others_measure_all_rails_at_once() -> None:
    (pairs,) = plan(2, 4).neighbours()
    assert plan(2, 4).pair_round(2, pairs).lanes == 4
    crowded = plan(2, 4, crowded=True).pair_round(2, pairs)
    assert crowded.lanes == 1
    assert len(crowded.groups[0].tests) > 1, "short tests, so that a disturbance meets all pairs alike"


def test_devices_meet_in_the_same_subnet_unless_both_have_a_gateway() -> None:
    eight = plan(2, 8, subnets=4)
    assert eight.may_meet(("node01", 3), ("node02", 7))
    assert not eight.may_meet(("node01", 3), ("node02", 0))
    assert not eight.may_meet(("node01", 3), ("node01", 7))
    gate = IPv4Address("192.168.0.1")
    routed = tuple(
        Host(host.name, host.address, devices=tuple(Device(d.index, d.address, gate) for d in host.devices))
        for host in eight.hosts
    )
    assert ProbePlan(eight.cluster, routed, eight.request).may_meet(("node01", 3), ("node02", 0))


def test_on_a_direct_fabric_rails_do_not_reach_each_other() -> None:
    direct = plan(2, 4, fabric=Fabric.DIRECT)
    assert direct.may_meet(("node01", 3), ("node02", 3))
    assert not direct.may_meet(("node01", 3), ("node02", 2))


@pytest.mark.parametrize(
    ("cluster", "sends"),
    [
        (plan(2, 4, fabric=Fabric.DIRECT), False),
        (plan(2, 1, fabric=Fabric.DIRECT), True),
        (plan(2, 4, fabric=Fabric.DIRECT, backend="gloo"), True),
        (plan(2, 4), True),
    ],
)
def test_who_has_no_way_to_his_neighbours_does_not_send_to_them(cluster: ProbePlan, sends: bool) -> None:
    (everybody,) = cluster.all_devices(1).groups
    assert any(test.op == "send_recv" for test in everybody.tests) == sends
    assert all(any(test.op == "send_recv" for test in rail.tests) for rail in cluster.rails(2).groups)
    assert any(test.op == "all_to_all" for test in everybody.tests)


def test_on_a_direct_fabric_nobody_takes_part_whose_partner_is_out() -> None:
    direct = plan(2, 4, fabric=Fabric.DIRECT).without([("node02", 3)])
    (everybody,) = direct.all_devices(1).groups
    assert [(it.host, it.device) for it in everybody.members] == [(f"node0{n}", d) for n in (1, 2) for d in range(3)]
    (host, _) = direct.within_hosts(2).groups
    assert len(host.members) == 4


def test_a_pair_well_below_the_median_is_slow_and_one_near_it_is_not() -> None:
    rails = [seen(pair, speed) for pair, speed in zip(plan().neighbours()[0], (1.0, 0.95, 0.7, 1.05), strict=True)]
    judged = with_slow(rails, slow_below(rails))
    assert [o.test.outcome for o in judged] == [TestOutcome.PASS, TestOutcome.PASS, TestOutcome.SLOW, TestOutcome.PASS]


def test_the_best_of_several_measurements_counts() -> None:
    rails = plan().neighbours()[0]
    measured = [seen(pair, speed) for pair in rails for speed in (1.0, 0.9)]
    measured += [seen(rails[0], 0.3)]
    assert all(o.test.outcome is TestOutcome.PASS for o in with_slow(measured, slow_below(measured)))


def test_where_every_pair_differs_from_itself_a_like_difference_between_pairs_is_not_slow() -> None:
    rails = plan().neighbours()[0]
    restless = [seen(pair, speed) for pair in rails for speed in (1.0, 0.3)]
    half = [o for o in restless if o.test.members != rails[0]] + [seen(rails[0], 0.5), seen(rails[0], 0.4)]
    assert all(o.test.outcome is TestOutcome.PASS for o in with_slow(half, slow_below(half)))
    crawling = [o for o in restless if o.test.members != rails[0]] + [seen(rails[0], 0.05), seen(rails[0], 0.04)]
    slow = {o.test.members for o in with_slow(crawling, slow_below(crawling)) if o.test.outcome is TestOutcome.SLOW}
    assert slow == {rails[0]}


def test_two_pairs_are_too_few_to_call_one_of_them_slow() -> None:
    rails = [seen(pair, speed) for pair, speed in zip(plan(2, 2).neighbours()[0], (1.0, 0.1), strict=True)]
    assert slow_below(rails) == 0


@pytest.mark.parametrize(
    ("speeds", "slow"),
    [
        ((1.0, 1.0, 0.2, 0.2), {0.2}),  # half of them: the median lies between
        ((1.0, 1.02, 0.97, 0.2, 0.21, 0.98), {0.2, 0.21}),
        ((1.0, 0.9, 0.8, 0.72, 0.65, 0.6), set()),  # no two kinds of pairs
        ((0.2, 0.2, 0.2, 1.0), set()),  # one that is fast is no measure for all others
    ],
    ids=["half", "two of six", "all kinds", "one fast"],
)  # fmt: skip
def test_where_up_to_half_are_slow_the_gap_tells_them(speeds: tuple[float, ...], slow: set[float]) -> None:
    pairs = plan(2, 8).neighbours()[0]
    judged = [seen(pair, speed) for pair, speed in zip(pairs, speeds, strict=False)]
    found = {o.test.busbw_GBps for o in with_slow(judged, slow_below(judged)) if o.test.outcome is TestOutcome.SLOW}
    assert found == slow
