"""NIC105 over more hosts than a case file has: which leaves are a pattern, and who breaks it."""

from dataclasses import replace

import pytest

from preflight.checks.engine.registry import All, all_checks
from preflight.facts.reading import Found
from preflight.facts.sections.nic import Neighbour, Nic, NicDevice
from preflight.model.cluster import Host
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from tests.unit.healthy import healthy_cluster

Fabric = dict[str, list[str]]  # host → the leaf of each of its devices


def hosts(number: int, leaves: list[str]) -> Fabric:
    return {f"node{index:02}": list(leaves) for index in range(1, number + 1)}


RAILS = [f"leaf{rail}" for rail in range(8)]  # a leaf a rail
ONE = ["leaf"] * 8  # all devices on the switch of their rack


def look(fabric: Fabric) -> list[Finding]:
    check = all_checks()["NIC105"]
    cluster = replace(healthy_cluster(), hosts=tuple(Host(name, name) for name in fabric))
    nic = {
        name: Nic(tuple(NicDevice(index, neighbour=Found(Neighbour(leaf))) for index, leaf in enumerate(leaves)))
        for name, leaves in fabric.items()
    }
    return list(check.function(All(check, cluster, cluster.hosts), nic))


def told(fabric: Fabric) -> list[tuple[str | None, str, str]]:
    return [(finding.host, finding.outcome.value, finding.summary) for finding in look(fabric)]


@pytest.mark.parametrize("leaves", [RAILS, ONE], ids=["a leaf a rail", "a leaf a rack"])
def test_hosts_that_are_cabled_alike_are_no_news(leaves: list[str]) -> None:
    assert look(hosts(8, leaves)) == []


def test_two_swapped_cables_are_one_finding_about_the_host_that_has_them() -> None:
    fabric = hosts(4, RAILS)
    fabric["node03"][2], fabric["node03"][3] = fabric["node03"][3], fabric["node03"][2]
    (finding,) = look(fabric)
    assert (finding.host, finding.device, finding.outcome) == ("node03", 2, Outcome.FAIL)
    assert finding.summary == "node03: device 2: cable is swapped with that of device 3 (leaf3 instead of leaf2)"
    assert finding.remedy == "swap the cables of devices 2 and 3 of node03"


def test_a_cable_is_named_once_where_several_hosts_devices_share_a_leaf() -> None:
    fabric = hosts(4, list("AAAABBBB"))
    fabric["node02"] = list("ABABABAB")
    assert told(fabric) == [
        ("node02", "fail", "node02: device 1: cable is swapped with that of device 4 (B instead of A)"),
        ("node02", "fail", "node02: device 3: cable is swapped with that of device 6 (B instead of A)"),
    ]
    assert [
        finding[2].partition(",")[0] for finding in told({name: fabric[name] for name in ("node01", "node02")})
    ] == [
        "node01: device 1: cable is swapped with that of device 4",
        "node01: device 3: cable is swapped with that of device 6",
    ]


def test_a_cable_too_many_in_a_leaf_that_two_are_swapped_with_is_told_by_itself() -> None:
    fabric = hosts(4, list("AAAABBBB"))
    fabric["node02"] = list("ABBAABBB")
    assert told(fabric) == [
        ("node02", "fail", "node02: device 1: cable is swapped with that of device 4 (B instead of A)"),
        ("node02", "fail", "node02: device 2: is connected to B, to which other hosts connect device 4"),
    ]


def test_ports_without_a_neighbour_break_no_pattern_and_hide_none() -> None:
    fabric = hosts(12, RAILS)
    for number, leaves in enumerate(fabric.values()):
        leaves[number % 8] = leaves[number * 3 % 8] = ""
    fabric["node05"][1], fabric["node05"][2] = fabric["node05"][2], fabric["node05"][1]
    assert [(finding.host, finding.device) for finding in look(fabric)] == [("node05", 1)]


def test_a_host_of_two_devices_may_have_both_swapped() -> None:
    fabric = hosts(4, RAILS[:2])
    fabric["node02"].reverse()
    assert [finding[0] for finding in told(fabric)] == ["node02"]


def test_a_cable_in_the_leaf_of_another_rail_is_a_failure_and_in_one_of_nobody_a_warning() -> None:
    fabric = hosts(5, RAILS)
    fabric["node01"][6] = "leaf1"
    fabric["node05"][4] = "storage"
    assert told(fabric) == [
        ("node01", "fail", "node01: device 6: is connected to leaf1, to which other hosts connect device 1"),
        ("node05", "warn", "node05: device 4: is connected to storage. Nearly all other hosts connect it to leaf4"),
    ]


def test_groups_of_hosts_on_leaves_of_their_own_are_a_pattern() -> None:
    second = [f"leaf{rail}b" for rail in range(8)]
    fabric = {**hosts(4, RAILS), **{f"node{number}": list(second) for number in range(11, 15)}}
    assert look(fabric) == []
    fabric["node12"][0], fabric["node12"][7] = fabric["node12"][7], fabric["node12"][0]
    assert [(finding.host, finding.device) for finding in look(fabric)] == [("node12", 0)]


def test_a_group_that_shares_half_of_its_leaves_with_a_larger_one_is_a_pattern_too() -> None:
    half = [*RAILS[:4], *(f"leaf{rail}b" for rail in range(4, 8))]
    fabric = {**hosts(24, RAILS), **{f"node{number}": list(half) for number in range(40, 43)}}
    assert look(fabric) == []


def test_a_host_between_two_others_breaks_no_pattern() -> None:
    """Two against one: with a single other host on each side, nobody knows."""
    fabric = hosts(2, RAILS)
    fabric["node02"][5] = "elsewhere"
    assert look(fabric) == []


def test_every_one_of_400_hosts_may_break_the_pattern_in_its_own_way() -> None:
    fabric = hosts(400, RAILS)
    for number, leaves in enumerate(fabric.values()):
        leaves[number % 8] = f"spare{number}"
    assert len(look(fabric)) == 400
