"""Port counters of a probe that left a host out."""

from preflight.checks.engine.registry import All, all_checks
from preflight.facts.link_counts import LinkCounts, PortCount
from preflight.model.outcome import Outcome
from tests.unit.healthy import healthy_cluster


def test_a_host_that_the_probe_left_out_is_skipped() -> None:
    cluster = healthy_cluster()
    check = all_checks()["PRB120"]
    first, *others = (host.name for host in cluster.hosts)
    counts = LinkCounts((PortCount(first, "device 0", 0, 1_000_000, {}),))
    findings = list(check.function(All(check, cluster, cluster.hosts), counts))
    assert {finding.host: finding.outcome for finding in findings} == {
        first: Outcome.PASS,
        **dict.fromkeys(others, Outcome.SKIP),
    }
