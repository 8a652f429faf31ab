"""The second round: who pings whom, and what becomes of it."""

from dataclasses import replace
from typing import Any

from preflight.facts.pings import expected_seconds, ping, plan_pings
from preflight.facts.types import ClusterFacts, Hccn, HccnDevice, HostFacts, Ping, Reading, Unreachable
from preflight.model.cluster import Fabric
from tests.unit.test_facts import Wire, cluster, facts_of, framed, said, sections


def device(index: int, address: str | None, gateway: str | None = None, leaf: str | None = None) -> HccnDevice:
    none = Reading()
    return HccnDevice(index, Reading(address), none, none, none, none, Reading(gateway), none, none, Reading(leaf))


def with_devices(*devices: HccnDevice) -> HostFacts:
    return replace(facts_of(framed(sections())), hccn=Hccn(devices))


def pairs(plan: tuple[Ping, ...]) -> list[tuple[str, str, str]]:
    return [(f"{ping.host}/{ping.device}", ping.address, ping.peer) for ping in plan]


THREE = ClusterFacts(
    {
        "a": with_devices(device(0, "10.0.0.1", "10.0.0.254"), device(1, "10.0.0.2")),
        "b": with_devices(device(0, "10.0.0.3")),
        "gone": Unreachable("timeout", "x", "y"),
        "c": with_devices(device(0, "10.0.0.5"), device(1, None)),
    }
)


def test_a_device_pings_its_gateway_and_the_next_host_of_its_rail() -> None:
    assert pairs(plan_pings(cluster("a", "b", "gone", "c"), THREE, mesh=False)) == [
        ("a/0", "10.0.0.254", "gateway"),
        ("a/0", "10.0.0.3", "b/0"),
        ("b/0", "10.0.0.5", "c/0"),
        ("c/0", "10.0.0.1", "a/0"),
    ]


def test_the_inventory_s_gateway_goes_before_the_one_the_device_has() -> None:
    plan = plan_pings(cluster("a", "b", "gone", "c", gateway="10.0.0.9"), THREE, mesh=False)
    assert [ping.address for ping in plan if ping.peer == "gateway"] == ["10.0.0.9"] * 4


def test_a_mesh_pings_every_host_of_the_rail_and_no_other_rail() -> None:
    plan = plan_pings(cluster("a", "b", "gone", "c"), THREE, mesh=True)
    rail = [pair for pair in pairs(plan) if pair[2] != "gateway"]
    assert rail == [(f"{a}/0", {"a": "10.0.0.1", "b": "10.0.0.3", "c": "10.0.0.5"}[b], f"{b}/0")
                    for a, others in (("a", "bc"), ("b", "ca"), ("c", "ab")) for b in others]  # fmt: skip


def test_on_a_direct_fabric_there_is_no_gateway_to_ping() -> None:
    plan = plan_pings(cluster("a", "b", fabric=Fabric.DIRECT, gateway="10.0.0.9"), THREE, mesh=False)
    assert {ping.peer for ping in plan} == {"a/0", "b/0", "c/0"}


def test_one_host_of_every_other_leaf_is_pinged_besides_the_next() -> None:
    leaves = {"a": "l1", "b": "l1", "c": "l2", "d": "l2", "e": "l3"}
    facts = ClusterFacts(
        {name: with_devices(device(0, f"10.0.0.{n}", leaf=leaf)) for n, (name, leaf) in enumerate(leaves.items(), 1)}
    )
    plan = plan_pings(cluster(*leaves), facts, mesh=False)
    assert [ping.peer for ping in plan if ping.host == "a"] == ["b/0", "c/0", "e/0"]
    assert [ping.peer for ping in plan if ping.host == "d"] == ["e/0", "a/0"]


def test_one_host_alone_pings_nobody_but_its_gateway() -> None:
    facts = ClusterFacts({"a": THREE.hosts["a"]})
    assert pairs(plan_pings(cluster("a"), facts, mesh=True)) == [("a/0", "10.0.0.254", "gateway")]


def test_the_time_foretold_is_that_of_the_device_with_the_most_pings_for_every_batch_of_hosts() -> None:
    plan = tuple(Ping(f"h{host}", 0, f"10.0.0.{n}", "x") for host in range(40) for n in range(3))
    assert expected_seconds(plan, pool=32) == 2 * expected_seconds(plan[:3], pool=32) > 0
    assert expected_seconds(()) == 0


def test_pings_come_back_in_the_order_of_the_plan_each_with_its_own_result() -> None:
    lost = "recv time out seq=0\n" * 3 + "3 packets transmitted, 0 received, 100.00% packet loss\n"
    good = "recv seq=0,time=0.1ms\n" * 3 + "3 packets transmitted, 3 received, 0.00% packet loss\n"

    def reply(request: dict[str, Any]) -> object:
        value = {"0": {"10.0.0.3": said(good), "10.0.0.254": said(lost, "Command execute failed!\n", 1)}}
        return {"pings": {"value": value if [0, "10.0.0.254"] in request["pings"] else {}}}

    four = cluster("a", "b", "gone", "c")
    plan = (*plan_pings(four, THREE, mesh=False), Ping("gone", 0, "10.0.0.1", "a/0"))
    done = ping(four, THREE, Wire(reply), plan, progress=None)
    assert [(it.host, it.device, it.address, it.peer) for it in done] == [
        (it.host, it.device, it.address, it.peer) for it in plan
    ]
    assert (done[0].sent, done[0].received, done[0].error) == (3, 0, "")
    assert (done[1].received, done[1].milliseconds) == (3, 0.1)
    assert done[2].error == "hccn_tool did not answer in time"
    assert done[4].error == "the host gave no facts"
