"""Checks of RDMA over three hosts: whom the gate convicts, and what two hosts cannot show."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.parsers.rdma import RdmaPort
from preflight.facts.sections.rdma import Rdma
from preflight.facts.types import ClusterFacts, HostFacts, Network
from preflight.gate.verdict import looks_of
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.report.build import build
from tests.unit.healthy import host_facts, scene

FAIL, WARN, UNKNOWN, PASS, SKIP = Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN, Outcome.PASS, Outcome.SKIP
HOSTS = ["node01", "node02", "node03"]
FOUR = [*HOSTS, "node04"]
Change = Callable[[HostFacts], HostFacts]


def look(check: str, names: Sequence[str] = HOSTS, **changes: Change) -> list[Finding]:
    """What a check says of three hosts, or of those with these names, of which some differ from healthy ones."""
    two = scene({"cluster": {"product": "nvidia"}}).cluster
    hosts = (replace(two.hosts[0], name=name, address=f"10.1.0.{at}") for at, name in enumerate(names, 1))
    cluster = replace(two, hosts=tuple(hosts))
    facts = {host.name: host_facts(cluster, host, number) for number, host in enumerate(cluster.hosts, 1)}
    facts |= {name: change(facts[name]) for name, change in changes.items()}
    return run_checks(cluster, ClusterFacts(dict(facts)), checks=[all_checks()[check]], hosts=cluster.hosts)


def gate(findings: list[Finding], names: Sequence[str] = HOSTS) -> list[Outcome | None]:
    """Of each host: None where the look says nothing of it."""
    needs = {id_: check.needs for id_, check in all_checks().items()}
    looks = looks_of(build("check", datetime.now(UTC), list(names), findings), names, needs, {})
    return [looks[host]["check"].outcome if "check" in looks[host] else None for host in names]


def rdma_of(host: HostFacts) -> Rdma:
    assert isinstance(host.rdma, Rdma)
    return host.rdma


def with_mtu(host: HostFacts) -> HostFacts:
    assert isinstance(host.network, Network)
    nics = (replace(nic, mtu=1500) if nic.name.startswith("rdma") else nic for nic in host.network.interfaces)
    return replace(host, network=replace(host.network, interfaces=tuple(nics)))


def in_version_1(host: HostFacts) -> HostFacts:
    gids = tuple(replace(gid, kind="v1") for gid in rdma_of(host).gids)
    return replace(host, rdma=replace(rdma_of(host), gids=gids))


def crossed(host: HostFacts) -> HostFacts:
    other = {"mlx5_0": "mlx5_1", "mlx5_1": "mlx5_0"}
    gids = tuple(replace(gid, device=other[gid.device]) for gid in rdma_of(host).gids)
    return replace(host, rdma=replace(rdma_of(host), gids=gids))


def without_roce(host: HostFacts) -> HostFacts:
    ports = tuple(port for port in rdma_of(host).ports if port.link_layer != "Ethernet")
    return replace(host, rdma=replace(rdma_of(host), ports=ports, gids=()))


@pytest.mark.parametrize(("check", "differs"), [("RDM105", in_version_1), ("RDM106", with_mtu), ("RDM107", crossed)])
def test_two_hosts_that_differ_are_not_convicted_by_a_third_that_has_no_such_port(check: str, differs: Change) -> None:
    findings = look(check, node02=differs, node03=without_roce)
    assert {(one.host, one.outcome) for one in findings} == {("node01", FAIL), ("node02", FAIL), ("node03", SKIP)}
    assert gate(findings) == [WARN, WARN, None]


def test_nor_by_one_that_has_the_port_in_which_they_do_not_differ() -> None:
    def one_port(host: HostFacts) -> HostFacts:
        return replace(host, rdma=replace(rdma_of(host), ports=rdma_of(host).ports[:1]))

    def second_mtu(host: HostFacts) -> HostFacts:
        assert isinstance(host.network, Network)
        nics = (replace(nic, mtu=1500) if nic.name == "rdma1" else nic for nic in host.network.interfaces)
        return replace(host, network=replace(host.network, interfaces=tuple(nics)))

    assert gate(look("RDM106", node02=second_mtu, node03=one_port)) == [WARN, WARN, None]


@pytest.mark.parametrize(("check", "differs"), [("RDM105", in_version_1), ("RDM106", with_mtu), ("RDM107", crossed)])
def test_one_host_that_differs_from_two_is_convicted(check: str, differs: Change) -> None:
    assert gate(look(check, node02=differs)) == [PASS, FAIL, PASS]


def elsewhere(host: HostFacts) -> HostFacts:
    """In two networks of its own, 10.40.x in the place of 10.30.x."""
    assert isinstance(host.network, Network)
    gids = tuple(
        replace(gid, gid=gid.gid.replace("10.30.", "10.40."), address=(gid.address or "").replace("10.30.", "10.40."))
        if gid.address
        else gid
        for gid in rdma_of(host).gids
    )
    nics = tuple(
        replace(nic, addresses=tuple(text.replace("10.30.", "10.40.") for text in nic.addresses))
        for nic in host.network.interfaces
    )
    return replace(host, rdma=replace(rdma_of(host), gids=gids), network=replace(host.network, interfaces=nics))


def test_two_that_differ_are_not_convicted_by_hosts_of_other_networks() -> None:
    findings = look("RDM107", FOUR, node02=crossed, node03=elsewhere, node04=elsewhere)
    assert gate(findings, FOUR) == [WARN, WARN, None, None]
    assert "differ without a majority" in next(one.summary for one in findings if one.host == "node03")


def test_one_of_three_is_convicted_though_hosts_of_other_networks_are_alike() -> None:
    five = [*FOUR, "node05"]
    findings = look("RDM107", five, node02=crossed, node04=elsewhere, node05=elsewhere)
    assert gate(findings, five) == [PASS, FAIL, PASS, PASS, PASS]


def with_port(state: str, physical: str) -> Change:
    """With a port of a NIC for storage."""
    port = RdmaPort("mlx5_9", 1, state, physical, 100.0, "Ethernet", 0, 0)  # type: ignore[arg-type]
    return lambda host: replace(host, rdma=replace(rdma_of(host), ports=(*rdma_of(host).ports, port)))


def with_other_names(host: HostFacts) -> HostFacts:
    ports = tuple(replace(port, device=port.device.replace("mlx5_", "roce")) for port in rdma_of(host).ports)
    return replace(host, rdma=replace(rdma_of(host), ports=ports))


@pytest.mark.parametrize(
    ("physical", "outcome"), [("Disabled", WARN), ("Polling", FAIL)], ids=["switched off", "no signal"]
)
def test_a_port_that_two_of_three_use_is_a_failure_unless_it_is_switched_off(physical: str, outcome: Outcome) -> None:
    up, down = with_port("ACTIVE", "LinkUp"), with_port("DOWN", physical)
    findings = look("RDM101", node01=up, node02=up, node03=down)
    assert gate(findings) == [PASS, PASS, outcome]


def test_a_host_whose_devices_have_other_names_has_as_many_ports_as_the_others() -> None:
    findings = look("RDM101", node03=with_other_names)
    assert gate(findings) == [PASS, PASS, WARN]
    assert "mlx5_0, mlx5_1, mlx5_2: missing, but active on most hosts" in findings[0].summary


def test_a_host_with_a_port_less_is_convicted() -> None:
    assert gate(look("RDM101", node03=without_roce)) == [PASS, PASS, FAIL]


def test_a_port_whose_state_was_not_read_is_unknown() -> None:
    def unread(host: HostFacts) -> HostFacts:
        first, *others = rdma_of(host).ports
        return replace(host, rdma=replace(rdma_of(host), ports=(replace(first, state=None), *others)))

    findings = look("RDM101", node03=unread)
    assert gate(findings) == [PASS, PASS, UNKNOWN]
    assert findings[0].summary == "node03: mlx5_0: the port state could not be read"


def waiting(host: HostFacts) -> HostFacts:
    """Of InfiniBand alone, and with no subnet manager."""
    ports = (replace(port, state="INIT", link_layer="InfiniBand") for port in rdma_of(host).ports)
    return replace(host, rdma=replace(rdma_of(host), ports=tuple(ports), gids=()))


def test_a_fabric_without_a_subnet_manager_is_no_single_hosts_fault() -> None:
    findings = look("RDM102", node01=waiting, node02=waiting, node03=waiting)
    assert [(one.host, one.outcome) for one in findings] == [(None, FAIL)]
    assert gate(findings) == [WARN, WARN, WARN]


def test_one_host_that_the_subnet_manager_does_not_find_is_convicted() -> None:
    assert gate(look("RDM102", node03=waiting)) == [PASS, PASS, FAIL]
