"""The share of their ports' line rate that pairs and rails reach."""

import dataclasses

import pytest

from preflight.facts.reading import Found
from preflight.facts.sections.nic import Nic
from preflight.facts.types import ClusterFacts, HostFacts, Missing
from preflight.model.measure import Meeting, Member, Observation, RankView, Scope, TestOutcome, TestResult
from preflight.probe.line_rate import ports, with_line_rates
from tests.unit.healthy import healthy_cluster, healthy_facts

PAIR = (Member("node01", 0, 0), Member("node02", 0, 1))
SPEEDS = {("node01", 0): 25.0, ("node02", 0): 12.5, ("node01", 1): 25.0}


def observation(
    busbw: float | None = 10.0, members: tuple[Member, ...] = PAIR, backend: str = "hccl", scope: Scope = Scope.PAIR
) -> Observation:
    test = TestResult("r2-0", "all_reduce", "float32", 1 << 28, None, members, TestOutcome.PASS, "closed",
                      busbw_GBps=busbw, scope=scope)  # fmt: skip
    return Observation(test, (), Meeting(backend, "10.0.0.1:29500", {}))


def share(seen: Observation) -> float | None:
    return with_line_rates([seen], SPEEDS)[0].test.line_rate


def test_the_slower_port_decides() -> None:
    assert share(observation()) == pytest.approx(0.8)
    assert share(observation(scope=Scope.RAIL)) == pytest.approx(0.8)


@pytest.mark.parametrize(
    "seen",
    [
        observation(busbw=None),
        observation(backend="gloo"),
        observation(scope=Scope.ALL),
        observation(members=(Member("node01", 0, 0), Member("node01", 1, 1))),
        observation(members=(Member("node01", 1, 0), Member("node02", 1, 1))),
    ],
    ids=["nothing measured", "the host's NIC", "more than a port", "inside a host", "one port is not known"],
)
def test_what_cannot_be_said_is_not(seen: Observation) -> None:
    assert share(seen) is None


def test_ports_are_those_that_told_their_speed() -> None:
    facts = healthy_facts(healthy_cluster())
    mute, told = facts.hosts.values()
    assert isinstance(told, HostFacts)
    assert isinstance(told.nic, Nic)
    down = (dataclasses.replace(told.nic.devices[0], speed=Found(None)), *told.nic.devices[1:3])
    assert isinstance(mute, HostFacts)
    hosts = {
        "node01": dataclasses.replace(mute, nic=Missing("hccn_tool hangs")),
        "node02": dataclasses.replace(told, nic=Nic(down)),
    }
    assert ports(ClusterFacts(dict(hosts))) == {("node02", 1): 12.5, ("node02", 2): 12.5}


def test_tensors_in_the_hosts_memory_go_through_no_port() -> None:
    seen = observation()
    on_host = dataclasses.replace(seen, ranks=tuple(RankView(member, "closed", on_host=True) for member in PAIR))
    assert share(on_host) is None
