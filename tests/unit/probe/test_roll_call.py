"""The roll call: how far hosts are that have no agent yet, and which of them is named."""

from types import SimpleNamespace
from typing import Any

import pytest

from preflight.model.cluster import Cluster, Device, Host, Product
from preflight.probe.lines import Gone, HostMessage
from preflight.probe.messages import Failed, Noted, Ready, Running
from preflight.probe.request import Request
from preflight.probe.roll_call import RollCall
from preflight.probe.rounds import ProbePlan
from preflight.probe.run import _roll_call

READY = Ready("", torch="2.13", nic="eth0", address="10.0.0.1", store=29500, cores=2)
HOSTS = ("node01", "node02", "node03")


@pytest.fixture
def call() -> RollCall:
    return RollCall(HOSTS, 100.0)


def test_a_host_without_python_is_waited_for_before_one_that_imports_torch(call: RollCall) -> None:
    call.take(HostMessage("node01", Running("")), 101.0)
    waits = call.progress(102.0)
    assert (waits.slowest, waits.waiting_for, waits.seconds) == ("node02", "python", 2.0)


def test_a_host_whose_import_takes_three_times_as_long_as_the_others_is_named(call: RollCall) -> None:
    for host in HOSTS:
        call.take(HostMessage(host, Running("")), 101.0)
    for host in HOSTS[:2]:
        call.take(HostMessage(host, READY), 105.0)
    assert call.progress(112.0).waiting_for == "torch"
    waits = call.progress(117.0)
    assert (waits.slowest, waits.waiting_for) == ("node03", "torch, 4 times as long as other hosts")


def test_who_is_given_up_is_told_with_how_far_it_came(call: RollCall) -> None:
    call.take(HostMessage("node01", READY), 101.0)
    call.take(HostMessage("node02", Running("")), 120.0)
    assert not call.over(159.0)
    assert call.over(160.0)
    call.end(160.0)
    assert call.gone["node02"] == ("python", "Python has run for 40 s and is still importing torch")
    assert call.gone["node03"][0] == "none"
    assert call.gone["node03"][1].startswith("no agent started within 60 s")
    assert list(call.ready) == ["node01"]
    assert not call.waiting and not call.unheard


def test_where_time_is_limited_the_others_begin_without_a_host_that_is_late() -> None:
    call = RollCall(HOSTS, 100.0, until=160.0)
    call.take(HostMessage("node02", Running("")), 101.0)
    assert not call.over(125.0)  # nobody is there yet
    call.take(HostMessage("node01", READY), 125.0)
    assert not call.over(129.0)  # most are late: that is no fault of theirs
    assert call.over(130.0)
    call.take(HostMessage("node03", READY), 126.0)
    assert call.over(126.0)
    call.end(126.0)
    assert call.unheard == {"node02": ("python", "Python has run for 25 s and is still importing torch")}
    assert not call.gone


def test_where_nobody_comes_the_call_is_over_with_the_run() -> None:
    call = RollCall(HOSTS, 100.0, until=110.0)
    assert not call.over(109.0)
    assert call.over(110.0)
    call.end(110.0)
    assert list(call.unheard) == list(HOSTS)


def test_who_has_waited_for_what_a_probe_had_left_gets_its_time_from_there(call: RollCall) -> None:
    call.take(HostMessage("node01", Noted("", "ended processes that an earlier probe left behind")), 120.0)
    assert not call.over(179.0)
    assert call.over(180.0)
    call.end(180.0)
    assert set(call.gone) == set(HOSTS)


def test_the_first_word_on_a_failure_counts_and_one_late_or_twice_changes_nothing(call: RollCall) -> None:
    for message in (Running(""), Failed("", "python", "no torch"), Gone("it has ended"), READY):
        call.take(HostMessage("node01", message), 101.0)
    call.take(HostMessage("node02", READY), 101.0)
    call.take(HostMessage("node02", READY), 102.0)
    call.take(HostMessage("node02", Gone("lost")), 103.0)
    assert call.gone == {"node01": ("python", "no torch"), "node02": ("torch", "lost")}
    assert call.waiting == ["node03"]


def test_a_host_that_another_probe_has_is_neither_there_nor_at_fault_nor_waited_for(call: RollCall) -> None:
    why = "this host is being probed by kim@desk (run 1) since 12:00"
    for message in (Running(""), Failed("", "python", why, busy=True), Gone("it has ended")):
        call.take(HostMessage("node01", message), 101.0)
    assert call.busy == {"node01": why}
    assert not call.gone and not call.ready
    assert call.waiting == ["node02", "node03"]


def test_what_hosts_note_is_kept_on_one_line_with_their_name(call: RollCall) -> None:
    call.take(HostMessage("node01", Noted("", "ended what\na probe had left")), 101.0)
    assert call.notes == ["node01: ended what a probe had left"]


def test_hosts_that_pings_ruled_out_are_not_in_the_roll_call() -> None:
    """node02 gave an agent, but its pings were lost. It takes no part in the tests, so that it cannot be a failure."""
    cluster = Cluster("test", Product.ATLAS_A2, tuple(Host(name, name, devices=(Device(0),)) for name in HOSTS))
    plan = ProbePlan(cluster, cluster.hosts, Request("hccl", (8,)))
    conductor: Any = SimpleNamespace(gone={"node03": ("python", "no torch")}, unheard={}, printed=lambda _: "")
    (observation,) = _roll_call(plan, cluster.hosts[:1], conductor)
    assert [(view.member.host, view.stage) for view in observation.ranks if view.member.host == "node03"]
    assert {member.host for member in observation.test.members} == {"node01", "node03"}
