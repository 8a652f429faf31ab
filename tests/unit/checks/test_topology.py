"""NPU124 over more hosts than a case file has: what most of them have counts."""

from dataclasses import replace

from preflight.checks.engine.registry import All, all_checks
from preflight.facts.reading import Found
from preflight.facts.sections.chips import Chips, Topology
from preflight.model.cluster import Host
from tests.unit.healthy import healthy_cluster

Links = tuple[tuple[str, ...], ...]


def servers(*links: str) -> dict[str, Links]:
    """A host for each, whose four devices all reach each other so."""
    return {
        f"node{number:02}": tuple(tuple("X" if row == column else link for column in range(4)) for row in range(4))
        for number, link in enumerate(links, 1)
    }


def told(hosts: dict[str, Links]) -> list[tuple[str | None, str, str]]:
    check = all_checks()["NPU124"]
    cluster = replace(healthy_cluster(), hosts=tuple(Host(name, name) for name in hosts))
    chips = {name: Chips((), Found(Topology(tuple(range(4)), links))) for name, links in hosts.items()}
    findings = check.function(All(check, cluster, cluster.hosts), chips)
    return [(finding.host, finding.outcome.value, finding.summary) for finding in findings]


def test_one_server_with_hccs_among_servers_without_is_no_reason_to_call_those_broken() -> None:
    assert told(servers("HCCS", "PXB", "PXB", "PHB")) == []


def test_a_server_without_hccs_among_those_with_it_is_broken() -> None:
    found = told(servers("HCCS", "HCCS", "SYS"))
    assert {(host, outcome) for host, outcome, _ in found} == {("node03", "fail")}


def test_where_as_many_have_it_as_have_not_it_is_a_warning() -> None:
    assert {outcome for _, outcome, _ in told(servers("HCCS", "HCCS", "SYS", "SYS"))} == {"warn"}


def test_a_server_that_has_hccs_elsewhere_has_lost_it_where_half_of_the_hosts_have_it() -> None:
    hosts = servers("HCCS", "HCCS")
    hosts["node02"] = (("X", "HCCS", "HCCS", "HCCS"), ("HCCS", "X", "HCCS", "NA"), *hosts["node02"][2:])
    summary = "node02: device 1: reaches device 3 over NA, but over HCCS on other hosts"
    assert told(hosts) == [("node02", "fail", summary)]
