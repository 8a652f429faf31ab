"""A check while devices ping each other: the tests of devices leave out what lost pings rule out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from preflight.app import check
from preflight.app.probing.device_tests import ProbeSetting
from preflight.app.probing.probed_devices import ProbedDevices
from preflight.app.progress_line import ProgressLine
from preflight.app.run import ClusterRun
from preflight.app.run_options import CheckOptions
from preflight.app.session import Session
from preflight.checks.engine.run import NotRun
from preflight.facts.pings.plan import PingScope
from preflight.model.cluster import Host
from preflight.model.ping import Ping
from preflight.model.rehearsal import Rehearsal
from preflight.probe.request import Request
from preflight.probe.run import ProbeResult
from tests.unit.healthy import healthy_cluster, healthy_facts, healthy_pings

CLUSTER = healthy_cluster()
FACTS = healthy_facts(CLUSTER)


@dataclass
class Selection:
    """The hosts and devices that the tests would use."""

    hosts: list[str] = field(default_factory=list)
    without: list[tuple[str, int]] = field(default_factory=list)


def pings(lost: set[str]) -> tuple[Ping, ...]:
    """All planned pings. Those of these places have no answer."""

    def is_lost(ping: dict[str, Any]) -> bool:
        return bool({f"{ping['host']}/{ping['device']}", ping["peer"]} & lost)

    return tuple(Ping(**{**ping, "received": 0 if is_lost(ping) else 3}) for ping in healthy_pings())


@pytest.fixture
def tested(monkeypatch: pytest.MonkeyPatch) -> Selection:
    """A stand-in for the tests of devices: it asks which hosts and devices to use, and tests nothing."""
    tested = Selection()

    def run_tests(s: Session, request: Request, setting: ProbeSetting) -> ProbedDevices:
        tested.hosts = [host.name for host in setting.idle(s.hosts)]
        tested.without = sorted(setting.without())
        rehearsal = Rehearsal(request.backend, (), (), "not run")
        return ProbedDevices(s.hosts, request.backend, setting.before(), ProbeResult(()), rehearsal)

    monkeypatch.setattr(check, "run_tests", run_tests)
    monkeypatch.setattr(check, "add_results", lambda *_: None)
    return tested


def probe(monkeypatch: pytest.MonkeyPatch, results: Sequence[Ping], hosts: Sequence[Host] = CLUSTER.hosts) -> str:
    """Return why nothing was tested, if pings have these results."""
    monkeypatch.setattr(check, "send_pings", lambda *_: tuple(results))
    options = CheckOptions(idle=True)
    cluster = replace(CLUSTER, hosts=tuple(hosts))
    no_transport: Any = None
    s = Session(cluster, cluster.hosts, no_transport, ProgressLine(None))
    run = ClusterRun("check", options, cluster, cluster.hosts, s, facts=FACTS)
    run.rounds = dict.fromkeys(("pings", "rehearsal", "observations", "link_counts"), NotRun("not yet"))
    of_run = check._Check(options, run, time.monotonic())
    assert of_run.why_no_probe() == ""
    return check._probe(of_run, s, PingScope())


def test_a_device_that_loses_its_pings_is_left_out(monkeypatch: pytest.MonkeyPatch, tested: Selection) -> None:
    assert probe(monkeypatch, pings({"node02/3"})) == ""
    assert tested.hosts == ["node01", "node02"]
    assert ("node02", 3) in tested.without


def test_without_lost_pings_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch, tested: Selection) -> None:
    assert probe(monkeypatch, pings(set())) == ""
    assert tested == Selection(["node01", "node02"], [])


def test_if_pings_leave_too_few_devices_nothing_is_tested(monkeypatch: pytest.MonkeyPatch, tested: Selection) -> None:
    every_device = {f"node{host:02}/{device}" for host in (1, 2) for device in range(8)}
    why_not = probe(monkeypatch, pings(every_device))
    assert why_not.startswith("PNG101 failed")
    assert tested.hosts == []
