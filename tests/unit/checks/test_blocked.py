"""What the probe leaves out after failing findings."""

import pytest

from preflight.checks.engine.blocked import blocked
from preflight.checks.engine.registry import all_checks
from preflight.model.finding import Finding
from preflight.model.measure import Culprit
from preflight.model.outcome import Outcome


def failure(check: str, host: str | None = None, device: int | None = None, culprit: Culprit | None = None) -> Finding:
    return Finding(check, Outcome.FAIL, "a failure", host=host, device=device, culprit=culprit)


def test_a_failing_device_and_a_failing_host_are_left_out_with_their_checks() -> None:
    findings = [failure("NPU107", "node01", 3), failure("NPU101", "node01", 3), failure("HST101", "node02")]
    result = blocked(findings, all_checks())
    assert result.devices == {("node01", 3): ("NPU101", "NPU107")}
    assert result.hosts == {"node02": ("HST101",)}
    assert (result.cluster, result.checks) == ((), ("HST101", "NPU101", "NPU107"))


def test_a_device_of_a_host_that_is_left_out_is_not_listed_again() -> None:
    result = blocked([failure("HST116", "node01"), failure("NPU107", "node01", 3)], all_checks())
    assert (result.hosts, result.devices) == ({"node01": ("HST116",)}, {})


@pytest.mark.parametrize(
    ("kind", "members", "hosts", "devices"),
    [
        ("partition", ("node01", "node02"), {"node01", "node02"}, set()),
        ("link", ("node01/0", "node02/0"), set(), {("node01", 0), ("node02", 0)}),
        ("rail", ("node01/1", "node02/1"), set(), {("node01", 1), ("node02", 1)}),
    ],
)
def test_of_a_culprit_all_members_are_left_out(
    kind: str, members: tuple[str, ...], hosts: set[str], devices: set[tuple[str, int]]
) -> None:
    result = blocked([failure("PNG101", "node01", 0, Culprit(kind, members, (), "pings lost"))], all_checks())
    assert (set(result.hosts), set(result.devices), result.cluster) == (hosts, devices, ())


def test_a_failure_of_no_single_place_blocks_the_cluster() -> None:
    nothing = Culprit("system", (), (), "pings lost")
    result = blocked([failure("NPU121"), failure("PNG101", culprit=nothing)], all_checks())
    assert (result.cluster, result.hosts, result.devices) == (("NPU121", "PNG101"), {}, {})


def test_lost_pings_without_an_object_at_fault_block_nothing() -> None:
    """Two leaf switches lose pings between them: the pairs of the probe show more."""
    result = blocked([failure("PNG101")], all_checks())
    assert (result.cluster, result.hosts, result.devices) == ((), {}, {})


def test_both_devices_with_one_address_are_left_out() -> None:
    finding = Finding("NPU102", Outcome.FAIL, "one address", host="node02", device=2, peer="node01/2")
    assert set(blocked([finding], all_checks()).devices) == {("node02", 2), ("node01", 2)}


def test_past_events_later_files_and_warnings_block_nothing() -> None:
    warning = Finding("NPU107", Outcome.WARN, "a warning", host="node01", device=3)
    findings = [failure("NIC101", "node01", 3), failure("PRT102", "node01"), failure("ENV108"), warning]
    result = blocked(findings, all_checks())
    assert (result.hosts, result.devices, result.cluster) == ({}, {}, ())
