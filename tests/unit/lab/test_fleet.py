"""The fleet: what its seed draws, and what its hosts answer."""

import json
from collections import Counter
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

import pytest

from preflight.lab.fleet.answers import FleetAnswers
from preflight.lab.fleet.spec import DRIFTS, FleetSpec, SimulatedHost, draw
from preflight.lab.fleet.template import Template
from preflight.model.cluster import Cluster, Device, Host, Product
from preflight.model.errors import UsageError

TEMPLATE = Template(
    {
        "os": '{"value": {"hostname": "node01", "kernel": "6.1.0", "machine_id": "c0ffee"}}',
        "sysctl": '{"value": {"values": {"net.ipv4.ip_local_reserved_ports": "29500\\n"}}}',
        "hccn": '{"value": ["link status: UP 10.9.0.2 mask 255.255.252.0", "link status: UP 10.9.0.20"]}',
    },
    {
        "name": "node01",
        "address": "198.18.0.11",
        "machine id": "c0ffee",
        "device 0": "10.9.0.2",
        "device 1": "10.9.0.20",
        "netmask": "255.255.252.0",
        "gateway": "10.9.0.1",
    },
)


def cluster() -> Cluster:
    hosts = tuple(
        Host(
            f"node{number:04}",
            f"198.19.0.{number}",
            devices=tuple(
                Device(index, IPv4Interface(f"10.64.{number}.{index + 1}/16"), IPv4Address("10.64.0.1"))
                for index in (0, 1)
            ),
        )
        for number in (1, 2)
    )
    return Cluster("fleet", Product.ATLAS_A2, hosts)


def answer(host: SimulatedHost, *sections: str, **words: Any) -> dict[str, Any]:
    """The sections of a host's answer, without their frame."""
    request = {"marker": "mark", "deadlines": dict.fromkeys(sections, 5.0), **words}
    head, text = FleetAnswers(TEMPLATE, cluster()).answer(host, request, now=1000.0).strip().split("\n")
    assert head == f"mark {len(text)}"
    document: dict[str, Any] = json.loads(text)
    return document


def host(drift: Any = None, device: int = 0) -> SimulatedHost:
    return SimulatedHost("node0002", "198.19.0.2", 1.0, drift=drift, device=device)


def test_the_same_seed_draws_the_same_fleet_with_the_requested_shares() -> None:
    spec = FleetSpec(1000, 8, shares={"dead": 0.02, "hang": 0.01, "garbage": 0.01}, faulty=0.05, seed=7)
    hosts = draw(spec)
    assert hosts == draw(spec)
    assert Counter(each.behaviour for each in hosts) == {None: 960, "dead": 20, "hang": 10, "garbage": 10}
    drifts = Counter(each.drift for each in hosts if each.drift)
    assert sum(drifts.values()) == 50
    assert set(drifts) == set(DRIFTS)
    assert not any(each.drift and each.behaviour for each in hosts)
    assert len({each.address for each in hosts}) == len({each.name for each in hosts}) == 1000
    assert all(0.8 <= each.think <= 1.2 for each in hosts)


def test_a_fleet_without_devices_has_no_link_that_is_down() -> None:
    assert "link-down" not in {each.drift for each in draw(FleetSpec(200, faulty=1.0))}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hosts": 0}, "--hosts"),
        ({"hosts": 9000}, "--hosts"),
        ({"hosts": 1, "devices": 17}, "--devices"),
        ({"hosts": 1, "think": -1}, "--think"),
        ({"hosts": 1, "port": 0}, "--port"),
        ({"hosts": 1, "shares": {"dead": 0.6, "hang": 0.6}}, "100%"),
    ],
)
def test_an_impossible_fleet_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        FleetSpec(**values)


def test_a_host_answers_with_its_own_name_and_addresses() -> None:
    sections = answer(host(), "os", "hccn")
    assert sections["os"]["value"]["hostname"] == "node0002"
    assert sections["os"]["value"]["machine_id"] != "c0ffee"
    first, second = sections["hccn"]["value"]
    assert first == "link status: UP 10.64.2.1 mask 255.255.0.0"
    assert second == "link status: UP 10.64.2.2"
    assert sections["clock"]["value"] == {"start": 1000.0, "end": 1000.0}


def test_a_drift_is_in_the_facts_of_its_host_alone() -> None:
    assert answer(host("other-kernel"), "os")["os"]["value"]["kernel"] == "5.10.0-6.1.0"
    assert answer(host("link-down", 1), "hccn")["hccn"]["value"][0].startswith("link status: UP")
    assert answer(host("link-down", 1), "hccn")["hccn"]["value"][1].startswith("link status: DOWN")
    values = answer(host("ports-not-reserved"), "sysctl")["sysctl"]["value"]["values"]
    assert values["net.ipv4.ip_local_reserved_ports"].strip() == ""
    assert answer(host("wrong-clock"))["clock"]["value"]["start"] == 1030.0


def test_what_depends_on_the_request_succeeds() -> None:
    connects = {"targets": [["node0001", "198.19.0.1"]], "ports": [29500]}
    (connection,) = answer(host(), "connects", connects=connects)["connects"]["value"]
    assert (connection["host"], connection["port"], connection["code"]) == ("node0001", 29500, 111)
    pings = answer(host(), "pings", pings=[[0, ["-ping", "-g", "address", "10.64.1.1"]]])["pings"]["value"]
    assert "3 packets transmitted, 3 received" in pings["0"][0]["out"]
    assert answer(host(), "names")["names"]["value"]["cluster"] == {"node0001": ["198.19.0.1"]}


def test_a_section_that_the_template_lacks_is_an_error() -> None:
    assert "simulated host" in answer(host(), "extras")["extras"]["error"]
