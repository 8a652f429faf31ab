"""What a device says of itself, as an observation; and which groups have a training step."""

import pytest

from preflight.model.cluster import Cluster, Device, Host, Product
from preflight.model.measure import End, Member, Observation, Scope, TestOutcome
from preflight.probe.messages import Result
from preflight.probe.observe import observe
from preflight.probe.operations.operation import Operation
from preflight.probe.request import Request
from preflight.probe.round_state import GroupState, RankState
from preflight.probe.rounds import ProbePlan, RankGroup


def observed(test: Operation, *, bytes_: int, wrong: int = 0, on_host: bool = False) -> Observation:
    """The test's observation after a device did it in 1, 2 and 9 ms."""
    member = Member("node01", 3, 0)
    group = RankGroup("r1g3", (member,), (test,), Scope.DEVICE)
    said = Result("n", "r1g3", 0, 0, [0.001, 0.009, 0.002], wrong, "", 0 if wrong else None, bytes_, on_host)
    rank = RankState(member, 0.0, meets=False, stage="closed", results={0: said}, end=End.CLOSED)
    _, seen = observe("r1", [GroupState(group, [rank])], late=60.0)
    return seen


@pytest.mark.parametrize("op", ["memory", "copy_in", "copy_out"])
def test_a_copy_has_a_bandwidth_of_as_many_bytes_as_it_took(op: str) -> None:
    test = observed(Operation(op, "int32", 1 << 28), bytes_=1 << 20).test
    assert (test.bytes, test.seconds, test.busbw_GBps, test.tflops) == (1 << 20, 0.002, None, None)
    assert test.p99_seconds == 0.009
    assert test.algbw_GBps == pytest.approx((1 << 20) / 0.002 / 1e9)


def test_a_product_has_operations_a_second() -> None:
    test = observed(Operation("matmul", "bfloat16", 1 << 28), bytes_=2 * 4096**2).test
    assert (test.algbw_GBps, test.busbw_GBps) == (None, None)
    assert test.tflops == pytest.approx(2 * 4096**3 / 0.002 / 1e12)


def test_nobody_takes_more_bytes_than_it_may() -> None:
    assert observed(Operation("memory", "int32", 1 << 20), bytes_=1 << 60).test.bytes == 1 << 20


def test_wrong_values_and_who_computed_are_seen() -> None:
    seen = observed(Operation("matmul", "float32", 256), bytes_=256, wrong=3, on_host=True)
    (view,) = seen.ranks
    assert (seen.test.outcome, seen.test.scope, seen.test.wrong_values) == (TestOutcome.WRONG_DATA, Scope.DEVICE, 3)
    assert (view.wrong_values, view.suspect_rank, view.on_host) == (3, 0, True)


@pytest.mark.parametrize(("quick", "last"), [(False, ["training_step"]), (True, [])])
def test_everybody_trains_last_and_nobody_else_does(quick: bool, last: list[str]) -> None:
    hosts = tuple(Host(f"node{n}", f"10.0.0.{n}", devices=(Device(0), Device(1))) for n in (1, 2))
    request = Request("hccl", (8, 1 << 16), quick=quick)
    plan = ProbePlan(Cluster("test", Product.ATLAS_A2, hosts), hosts, request)
    (everybody,) = plan.all_devices(1).groups
    trains = [test.op for test in everybody.tests if test.op == "training_step"]
    assert trains == last == [test.op for test in everybody.tests][len(everybody.tests) - len(last) :]
    others = (plan.within_hosts(2), plan.rails(3), plan.devices(4))
    assert not [t for made in others for group in made.groups for t in group.tests if t.op == "training_step"]


def test_all_devices_are_tested_at_once_even_where_groups_take_turns() -> None:
    hosts = (Host("node1", "10.0.0.1", devices=tuple(map(Device, range(8)))),)
    plan = ProbePlan(Cluster("test", Product.ATLAS_A2, hosts), hosts, Request("hccl", (8,)), crowded=True)
    made = plan.devices(1)
    assert (made.lanes, len(made.groups), made.groups[0].scope) == (8, 8, Scope.DEVICE)
