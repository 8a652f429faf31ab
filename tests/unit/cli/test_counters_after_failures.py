"""Facts that are looked at again because tests have failed: counters tell what happened meanwhile."""

from dataclasses import replace

from preflight.app.probing.causes import counted_since
from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.parsers.rdma import PortCounters
from preflight.facts.sections.rdma import Rdma
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.model.outcome import Outcome
from tests.unit.healthy import scene


def test_an_rdma_link_that_went_down_during_the_tests_is_told_as_that() -> None:
    nvidia = scene({"cluster": {"product": "nvidia"}})
    host = nvidia.cluster.hosts[0].name
    before = nvidia.facts
    facts = before.hosts[host]
    assert isinstance(facts, HostFacts)
    assert isinstance(facts.rdma, Rdma)
    risen = tuple(_risen(port) for port in facts.rdma.counters)
    now = ClusterFacts({host: replace(facts, rdma=replace(facts.rdma, counters=risen, later=risen))})
    look = [all_checks()["RDM108"]]
    quiet, told = (
        run_checks(nvidia.cluster, facts, checks=look, hosts=nvidia.cluster.hosts[:1])
        for facts in (now, counted_since(now, before))
    )
    assert {finding.outcome for finding in quiet} == {Outcome.PASS}, "in half a second nothing happened"
    assert {finding.outcome for finding in told} == {Outcome.WARN}
    assert "1 new link loss during the tests" in told[0].summary


def _risen(port: PortCounters) -> PortCounters:
    return replace(port, values={**port.values, "link_downed": port.values["link_downed"] + 1})
