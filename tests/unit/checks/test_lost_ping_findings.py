"""What the findings about lost pings say: words for people, culprits for programs."""

from dataclasses import replace

import pytest

from preflight.attribution.ping_types import PingEnd
from preflight.checks.engine.registry import All, all_checks
from preflight.facts.pings.plan import PingScope
from preflight.facts.types import HostFacts
from preflight.model.cluster import Device, Host
from preflight.model.finding import Finding
from preflight.model.measure import Culprit
from preflight.model.outcome import Outcome
from tests.unit.attribution.test_lost_pings import DEVICES, Lost, apart, pinged
from tests.unit.facts.test_pings import MESH, NEIGHBOURS, cluster, rows

LOST = "pings lost on the way"
GATEWAYS = [f"10.0.{rail}.254" for rail in range(DEVICES)]


def told(wanted: PingScope, lost: Lost, *, behind: int = 3, large: bool = False) -> list[Finding]:
    """The failures of PNG101, or of PNG102 where what is lost is large; `behind` each leaf are so many of six hosts."""
    pings = pinged(wanted, lost, behind=behind)
    if large:
        small = [replace(ping, received=ping.sent) for ping in pings]
        pings = [*small, *(replace(ping, purpose="mtu", size=1472) for ping in pings)]
    facts = rows(6, DEVICES, gateway="yes", subnets=True, leaf=behind).hosts
    hosts = tuple(Host(name, name, devices=tuple(map(Device, range(DEVICES)))) for name in facts)
    check = all_checks()["PNG102" if large else "PNG101"]
    hccn = {name: host.hccn for name, host in facts.items() if isinstance(host, HostFacts)}
    findings = check.function(All(check, replace(cluster(), hosts=hosts), hosts), tuple(pings), hccn, ())
    return [finding for finding in findings if finding.outcome is not Outcome.PASS]


def broken(*devices: PingEnd) -> Lost:
    return lambda one, _: one in devices


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        (broken(PingEnd("n2", 1)), ("device", ("n2/1",))),
        (broken(*(PingEnd("n2", index) for index in range(DEVICES))), ("host", ("n2",))),
        (broken(*(PingEnd(f"n{host}", 1) for host in range(6))), ("rail", tuple(f"n{host}/1" for host in range(6)))),
        (lambda *_: True, ("system", ())),
        (lambda one, other: {one, other} == {PingEnd("n0", 1), PingEnd("n1", 1)}, ("link", ("n0/1", "n1/1"))),
        (lambda one, other: {one.host, other.host} == {"n0", "n1"}, ("link", ("n0", "n1"))),
    ],
    ids=["device", "host", "rail", "everything", "link", "two hosts"],
)
def test_a_failure_says_to_programs_whom_pings_convict(lost: Lost, expected: tuple[str, tuple[str, ...]]) -> None:
    assert {finding.culprit for finding in told(MESH, lost)} == {Culprit(*expected, (), LOST)}


def test_each_part_of_a_partition_is_a_culprit_of_its_own_with_its_leaf() -> None:
    one, other = sorted(told(NEIGHBOURS, apart({"n0", "n1", "n2"})), key=lambda finding: finding.summary)
    assert [it.culprit for it in (one, other)] == [
        Culprit("partition", ("n0", "n1", "n2"), (), LOST), Culprit("partition", ("n3", "n4", "n5"), (), LOST)
    ]  # fmt: skip
    assert one.summary.startswith("n[0-2] and n[3-5] cannot reach each other (")
    assert (one.host, one.rail, one.cause) == (
        None,
        None,
        "a fault upstream of l0, because exactly the devices behind l0 are cut off",
    )
    assert one.remedy == "check the uplinks of l0, their VLANs, and the switches behind the uplinks"


def test_a_part_of_a_rail_is_named_by_its_devices() -> None:
    (found,) = told(MESH, apart({"n1", "n4"}, {2}), behind=0)
    assert found.summary == "rail 2: n[1,4]/2 and n[0,2-3,5]/2 cannot reach each other (16 of 16 pings were lost)"
    assert (found.rail, found.culprit) == (2, Culprit("partition", ("n1/2", "n4/2"), (), LOST))
    assert "have no host or device in common" in found.cause


@pytest.mark.parametrize(
    "lost",
    [
        apart({"n0", "n1", "n2"}, {1}),
        apart({"n1", "n4"}, {1}, beyond=GATEWAYS[1:2]),
        apart({"n1", "n4"}, beyond=GATEWAYS),
    ],
    ids=["links", "devices", "hosts"],
)
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_where_neighbours_cannot_tell_a_part_from_others_the_mesh_is_the_next_command(lost: Lost, large: bool) -> None:
    few = told(NEIGHBOURS, lost, behind=0, large=large)
    assert len(few) == 2
    for finding in few:
        assert "a part of the fabric is cut off" in finding.cause
        assert finding.commands == (f"preflight check --mesh{' --ping-size 1472' if large else ''}",)
        assert finding.remedy.startswith("ping all pairs of devices. ")
    assert {finding.culprit.kind for finding in told(MESH, lost, behind=0) if finding.culprit} == {"partition"}


def test_of_large_packets_the_uplinks_of_a_leaf_are_named_too() -> None:
    first, *_ = sorted(told(NEIGHBOURS, apart({"n0", "n1", "n2"}), large=True), key=lambda finding: finding.summary)
    assert (first.check, first.remedy) == ("PNG102", "check the MTU of the uplinks of l0")
