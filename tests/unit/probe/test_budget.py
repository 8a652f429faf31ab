"""A host that hangs ends its own part and nothing else: of the rehearsal, of the roll-call, of a run with a budget.

What hangs does so for longer than a test may take, so a test that ends has not waited for it.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.app.background import FactsOfHosts, in_background, result_by
from preflight.checks.engine.registry import All, all_checks
from preflight.cli import main as cli
from preflight.model.cluster import Cluster, Device, Host, ProbeSettings, Product
from preflight.model.measure import Scope, TestOutcome
from preflight.model.outcome import Outcome
from preflight.model.ports import PortSet
from preflight.model.rehearsal import Rehearsal
from preflight.probe import lines, rehearsal, roll_call
from preflight.probe.request import Request
from preflight.probe.rounds import ProbePlan
from preflight.probe.run import probe
from preflight.probe.timeouts.estimate import sentence, without_groups
from preflight.transport.local import LocalTransport
from preflight.transport.types import Channel, Options, Program
from tests.unit.healthy import healthy_cluster, healthy_facts

HANGS = "sleep 600"


def cluster(hosts: int, devices: int = 2) -> Cluster:
    each = tuple(Device(index) for index in range(devices))
    named = tuple(Host(f"node{number:02}", f"127.0.0.{number}", devices=each) for number in range(1, hosts + 1))
    return Cluster("test", Product.CPU, named, job_ports=PortSet.parse("29500"),
                   probe=ProbeSettings(sys.executable, backend="gloo", sizes=(8,)))  # fmt: skip


class Uneven(LocalTransport):
    """This machine for every host, each with a setup line of its own."""

    def __init__(self, setups: dict[str, str]) -> None:
        super().__init__(Options())
        self.setups = setups

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:  # type: ignore[override]
        return super().start(host, replace(program, setup=self.setups.get(host.name, "")), timeout=timeout)


def rehearsed(hung: set[str], **more: Any) -> Rehearsal:
    three = cluster(3)
    with closing(Uneven(dict.fromkeys(hung, HANGS))) as transport:
        return rehearsal.rehearse(rehearsal.RehearsalRequest(three, three.hosts, "gloo"), transport, **more)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "CONNECT", 600.0)
    monkeypatch.setattr(lines, "FAREWELL", 600.0)


def test_the_rehearsal_goes_on_without_a_host_whose_setup_line_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "SOON", 0.5)
    seen = rehearsed({"node02"})
    assert [one.error.partition(" within")[0] for one in seen.hosts] == ["", "the host did not listen", ""]
    assert {(visit.source, visit.target) for visit in seen.visits} == {("node01", "node03"), ("node03", "node01")}


def test_a_rehearsal_in_which_nobody_comes_ends_with_its_time() -> None:
    seen = rehearsed({"node01", "node02", "node03"}, until=time.monotonic() + 0.2)
    assert [one.error for one in seen.hosts] == ["the host did not listen within 0 s"] * 3


def test_with_a_budget_one_host_whose_import_of_torch_hangs_is_named_and_the_other_is_tested(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(roll_call, "_SHARE", 0.0)  # no longer than until the other is there
    monkeypatch.setattr(lines, "FAREWELL", 3.0)  # who hangs does not hear that it is over
    (tmp_path / "torch.py").write_text("import time; time.sleep(600)")
    two = cluster(2)
    request = Request("gloo", (8,), (Scope.DEVICE,), quick=True, budget=300.0)
    with closing(Uneven({"node02": f"export PYTHONPATH={tmp_path}"})) as transport:
        called, *seen = probe(two, two.hosts, transport, request).observations
    assert called.test.outcome is TestOutcome.NOT_RUN
    assert {member.host for one in seen for member in one.test.members} == {"node01"}
    assert {one.test.outcome for one in seen} == {TestOutcome.PASS}
    check = all_checks()["PRB101"]
    (finding,) = check.function(All(check, two, two.hosts), (called, *seen), None, None)
    assert (finding.outcome, finding.host) == (Outcome.UNKNOWN, "node02")


def test_what_is_late_is_not_waited_for_and_an_error_stays_one() -> None:
    hangs = threading.Event()
    assert result_by(in_background(hangs.wait), time.monotonic() + 0.1, "late") == "late"
    with pytest.raises(ZeroDivisionError):
        result_by(in_background(lambda: 1 // 0), float("inf"), "late")
    hangs.set()


@pytest.fixture
def one_is_late(monkeypatch: pytest.MonkeyPatch) -> Iterator[FactsOfHosts]:
    """node01 has told of itself, node02 hangs."""
    hangs, two = threading.Event(), cluster(2)

    def collect(*_: object, on_facts: Any, **__: object) -> Any:
        on_facts("node01", next(iter(healthy_facts(healthy_cluster()).hosts.values())))
        hangs.wait()
        return "everything"

    monkeypatch.setattr("preflight.app.background.collect", collect)
    yield FactsOfHosts(SimpleNamespace(cluster=two, hosts=two.hosts, transport=None), ())  # type: ignore[arg-type]
    hangs.set()


def test_facts_of_some_hosts_do_not_wait_for_others(one_is_late: FactsOfHosts) -> None:
    one, two = cluster(2).hosts
    assert set(one_is_late.of([one]).hosts) == {"node01"}
    assert set(one_is_late.of([one, two], time.monotonic() + 0.1).hosts) == {"node01"}


def test_a_single_host_s_pairs_are_tried_where_nothing_else_is_asked_for() -> None:
    one = cluster(1)
    request = Request("gloo", (8,), (Scope.PAIR,))
    with closing(LocalTransport(Options())) as transport:
        seen = probe(one, one.hosts, transport, request).observations
    assert {(one.test.scope, one.test.outcome) for one in seen} == {(Scope.PAIR, TestOutcome.PASS)}
    assert "2 ranks on 1 host, 1 test (pair)" in sentence(ProbePlan(one, one.hosts, request))


@pytest.mark.parametrize(
    ("hosts", "devices", "scopes", "none"),
    [
        (1, 2, (Scope.RAIL, Scope.PAIR), [Scope.RAIL]),
        (1, 1, (Scope.DEVICE, Scope.HOST, Scope.PAIR, Scope.ALL), [Scope.HOST, Scope.PAIR]),
        (2, 1, (Scope.HOST, Scope.RAIL, Scope.PAIR), [Scope.HOST]),
    ],
)
def test_scopes_that_make_no_group_are_known_before(
    hosts: int, devices: int, scopes: tuple[Scope, ...], none: list[Scope]
) -> None:
    some = cluster(hosts, devices)
    assert without_groups(ProbePlan(some, some.hosts, Request("gloo", (8,), scopes))) == none


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--scope", "rail"), "--scope rail needs more hosts"),
        (("--with", "hccl-test", "--budget", "60s"), "Remove --budget or --with"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anybody_is_contacted(
    options: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "hosts.toml"
    inventory.write_text('[cluster]\nname = "t"\nproduct = "atlas-a2"\ndevices = 1\ncidrs = ["10.0.0.0/24"]\n'
                         '[network]\nnic = "eth0"\n[[hosts]]\nname = "node01"\naddress = "10.0.0.1"\n')  # fmt: skip
    assert cli.main(["probe", "--inventory", str(inventory), "--idle", *options]) == 2
    assert says in capsys.readouterr().err
