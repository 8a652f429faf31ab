"""Verdicts of rails become one: device, host, rail, link, partition, system; and which way is slow."""

import pytest

from preflight.attribution.localiser.combine_rails import (
    LocatedFault,
    Rail,
    Transfer,
    merge,
    slow_direction,
    slow_link_direction,
)
from preflight.probe.localise import Test, Verdict

HOSTS = ("a", "b", "c", "d")
TESTS = (Test(frozenset("ab")), Test(frozenset("ac")))


def rails(*verdicts: Verdict) -> dict[int, Rail]:
    return {index: Rail(HOSTS, verdict) for index, verdict in enumerate(verdicts)}


def named(found: list[LocatedFault]) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.kind, one.members) for one in found]


A, WELL = Verdict(faulty={"a": TESTS}), Verdict()


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([WELL, WELL], []),
        ([A, A], [("host", ("a",))]),
        ([A], [("host", ("a",))]),
        ([WELL, A], [("device", ("a/1",))]),
        ([Verdict(systemic=True), WELL], [("rail", ("a/0", "b/0", "c/0", "d/0"))]),
        ([Verdict(systemic=True), A], [("rail", ("a/0", "b/0", "c/0", "d/0")), ("host", ("a",))]),
        ([Verdict(systemic=True), Verdict(systemic=True)], [("system", ())]),
        ([Verdict(links={frozenset("ab"): TESTS}), WELL], [("link", ("a/0", "b/0"))]),
        ([Verdict(links={frozenset("ab"): TESTS})] * 2, [("link", ("a", "b"))]),
        ([Verdict(intermittent={"b": TESTS}), A], [("device", ("a/1",)), ("intermittent device", ("b/0",))]),
        ([Verdict(scale={frozenset("abc"): TESTS})] * 2, [("scale", ("a", "b", "c"))]),
    ],
)
def test_a_fault_on_all_rails_is_the_host_and_on_one_its_device(
    verdicts: list[Verdict], expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    assert named(merge(rails(*verdicts))) == expected


def test_a_partition_on_all_rails_has_hosts() -> None:
    halves = Verdict(partitions={frozenset("ab"): TESTS, frozenset("cd"): TESTS})
    assert named(merge(rails(halves, halves))) == [("partition", ("a", "b")), ("partition", ("c", "d"))]


def test_a_host_with_fewer_devices_is_one_host() -> None:
    found = merge({0: Rail(HOSTS, A), 1: Rail(("b", "c"), WELL)})
    assert named(found) == [("host", ("a",))]
    assert found[0].tests == {0: TESTS}


def flows(slow: set[tuple[str, str]]) -> list[Transfer]:
    return [Transfer(a, b, 8.0 if (a, b) in slow else 24.0) for a in HOSTS for b in HOSTS if a != b]


@pytest.mark.parametrize(
    ("slow", "way"),
    [
        ({("a", other) for other in "bcd"}, "sends"),
        ({(other, "a") for other in "bcd"}, "receives"),
        ({("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")}, "both"),
        (set(), ""),
        ({("a", "b")}, ""),  # one link is not the host
    ],
)
def test_the_slow_direction_of_a_host(slow: set[tuple[str, str]], way: str) -> None:
    assert slow_direction("a", flows(slow)) == way


def test_the_slow_direction_of_a_link() -> None:
    assert slow_link_direction(("a", "b"), flows({("a", "b")})) == "sends"
    assert slow_link_direction(("b", "a"), flows({("a", "b")})) == "receives"
    assert slow_link_direction(("a", "b"), [Transfer("a", "b", 8.0), Transfer("b", "a", 24.0)]) == "sends"
    assert slow_link_direction(("a", "b"), [Transfer("a", "b", 8.0)]) == ""


def test_transfers_with_other_suspects_do_not_count() -> None:
    two = {(a, b) for a in "ab" for b in "abcd"} - {("a", "c"), ("a", "d")}
    assert slow_direction("a", flows(two), suspects={"a", "b"}) == ""
