"""Checks over many hosts: what a check does grows as the hosts do. How long that takes is benchmarks/checks.py's."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from benchmarks.checks import scene
from preflight.checks.engine.registry import ROUNDS, all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.types import ClusterFacts, HostFacts, Names
from preflight.model.outcome import Outcome

HOSTS = 24
SCENES = {hosts: scene(hosts) for hosts in (HOSTS, 2 * HOSTS)}
OF_FACTS = [id_ for id_, check in all_checks().items() if not set(ROUNDS) & set(check.needs)]


def calls(work: Callable[[], object]) -> int:
    """How many Python functions are called by `work`."""
    count = 0

    def seen(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("id_", OF_FACTS)
def test_twice_the_hosts_are_twice_the_work_of_a_check(id_: str) -> None:
    def look(hosts: int) -> int:
        cluster, facts = SCENES[hosts]
        return calls(lambda: run_checks(cluster, facts, checks=[all_checks()[id_]], hosts=cluster.hosts))

    look(HOSTS), look(2 * HOSTS)  # what is done once, such as reading a text that all hosts have
    assert look(2 * HOSTS) <= 2.1 * look(HOSTS)


def test_the_large_cluster_is_healthy() -> None:
    cluster, facts = SCENES[HOSTS]
    findings = run_checks(cluster, facts, checks=all_checks().values(), hosts=cluster.hosts)
    assert [one.summary for one in findings if one.outcome not in (Outcome.PASS, Outcome.SKIP)] == []


def test_a_host_that_knows_no_other_name_lists_some_of_them() -> None:
    cluster, facts = SCENES[2 * HOSTS]
    first, found = cluster.hosts[0], facts.hosts[cluster.hosts[0].name]
    assert isinstance(found, HostFacts)
    unknown: dict[str, tuple[str, ...]] = {host.name: () for host in cluster.hosts}
    lost = ClusterFacts({first.name: replace(found, names=Names((first.address,), unknown))})
    (finding,) = run_checks(cluster, lost, checks=[all_checks()["HST105"]], hosts=[first])
    assert f"{2 * HOSTS - 1} of {2 * HOSTS} host names" in finding.summary
    assert (len(finding.evidence), finding.evidence[-1]) == (20, "and 27 more")


def test_names_that_were_resolved_for_another_inventory_prove_nothing() -> None:
    cluster, facts = SCENES[HOSTS]
    first, found = cluster.hosts[0], facts.hosts[cluster.hosts[0].name]
    assert isinstance(found, HostFacts)
    for planned, outcome in ((HOSTS, Outcome.PASS), (HOSTS - 1, Outcome.UNKNOWN)):
        names = Names((first.address,), {first.name: (first.address,)}, resolved=planned, planned=planned)
        (finding,) = run_checks(
            cluster,
            ClusterFacts({first.name: replace(found, names=names)}),
            checks=[all_checks()["HST105"]],
            hosts=[first],
        )
        assert finding.outcome is outcome
