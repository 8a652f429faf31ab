"""From where the firewall lets the cluster in: its networks, or those that its hosts fill, never one rule a peer."""

import json
from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_network

import pytest

from preflight.facts.types import HostFacts
from preflight.model.cluster import Host
from preflight.rules.firewall.gate_inputs import GateInputs
from preflight.rules.firewall.gates import gates
from preflight.rules.firewall.rules import within
from tests.unit.healthy import scene


def at(addresses: Iterable[str], cidrs: Iterable[str] = ()) -> GateInputs:
    """A host of a cluster with these addresses, whose inventory names these networks."""
    case = scene({})
    facts = case.facts.hosts["node01"]
    assert isinstance(facts, HostFacts)
    hosts = tuple(Host(f"n{number}", address) for number, address in enumerate(addresses))
    cluster = replace(case.cluster, hosts=hosts, cidrs=tuple(map(ip_network, cidrs)))
    return GateInputs(cluster, hosts[0], facts.firewall, facts.network, facts.sysctl)  # type: ignore[arg-type]


def numbered(*numbers: int) -> list[str]:
    return [f"10.1.0.{number}" for number in numbers]


def test_hosts_without_a_network_in_the_inventory_are_one_rule_of_nftables() -> None:
    (gate,) = gates(at(numbered(*range(1, 101))))
    assert len(gate.needed) == 1
    assert len(gate.needed[0].sources or ()) == 100
    assert gate.written_here


@pytest.mark.parametrize(
    ("hosts", "networks"),
    [
        (numbered(*range(8, 16)), ["10.1.0.8/29"]),
        (numbered(*range(2, 16)), ["10.1.0.2/31", "10.1.0.4/30", "10.1.0.8/29"]),
        ([*numbered(8, 9), "fd00::8", "fd00::9"], ["10.1.0.8/31", "fd00::8/127"]),
    ],
)
def test_hosts_that_stand_together_are_let_in_as_the_networks_that_hold_nobody_else(
    hosts: list[str], networks: list[str]
) -> None:
    there = at(hosts)
    assert list(map(str, there.fewest(4, 6))) == networks
    assert there.to_name(4, 6) == ""


@pytest.mark.parametrize(
    ("hosts", "named"),
    [
        (numbered(1, 2), '["10.1.0.0/30"]'),
        (numbered(11, 12, 13), '["10.1.0.8/29"]'),
        (numbered(*range(1, 101)), '["10.1.0.0/25"]'),
        (numbered(*range(8, 16), 200), '["10.1.0.0/24"]'),
        (numbered(*range(2, 80, 4), *range(3, 80, 4)), '["10.1.0.0/25"]'),  # a rule for every second peer is no better
        ([*numbered(8, 9), "10.2.0.5"], '["10.1.0.8/31", "10.2.0.0/24"]'),
        ([*numbered(8, 9), "fd00::1", "fd00::2"], '["10.1.0.8/31", "fd00::/126"]'),
        ([f"10.1.{number}.7" for number in range(9)], '["10.1.0.0/20"]'),
        (["10.1.0.1", "10.2.0.1"], '["10.1.0.0/24", "10.2.0.0/24"]'),
    ],
)
def test_scattered_hosts_are_no_rules_but_a_line_for_the_inventory(hosts: list[str], named: str) -> None:
    assert at(hosts).to_name(4, 6) == f"cidrs = {named}"
    cidrs = json.loads(named)
    assert at(hosts, cidrs).to_name(4, 6) == "", "that line is enough"
    networks = list(map(ip_network, cidrs))
    assert all(any(within(ip_network(host), network) for network in networks) for host in hosts), "and lets in all"


def test_an_inventory_that_names_every_host_as_a_network_is_asked_for_fewer() -> None:
    hosts = numbered(*range(1, 41, 2))
    assert at(hosts, hosts[:16]).to_name(4) == ""
    assert at(hosts, hosts).to_name(4) == 'cidrs = ["10.1.0.0/26"]'
