"""Ways for ranks to meet: as jobs do, and what stands in the way of that. Real agents, over gloo on loopback."""

import itertools
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.checks.engine.registry import All, all_checks
from preflight.model.cluster import Cluster, Device, Host, ProbeSettings, Product
from preflight.model.finding import Finding
from preflight.model.measure import Member, Observation, Scope, TestOutcome
from preflight.probe.agents import Agents, ProbeWorkload
from preflight.probe.conductor import Conductor
from preflight.probe.operations.operation import Operation
from preflight.probe.rounds import RankGroup, Round
from preflight.probe.venue import Venue
from preflight.transport.local import LocalTransport
from preflight.transport.types import Options

DEVICES = (Device(0), Device(1))
HOSTS = (Host("node01", "127.0.0.1", devices=DEVICES), Host("node02", "127.0.0.1", devices=DEVICES))
ROUNDS = itertools.count(1)
TEST = Operation("all_reduce", "float32", 4096, reduction="sum")
# Rank 3 lists an empty directory wherever ranks are to meet: another file system is mounted there.
OTHER_DISK = """
import os
ls = os.listdir
os.listdir = lambda path: [] if os.environ.get("RANK") == "3" and "not-shared" in str(path) else ls(path)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.fixture(scope="module")
def conductor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conductor]:
    packages = tmp_path_factory.mktemp("packages")
    (packages / "sitecustomize.py").write_text(OTHER_DISK)
    setup = f"export PYTHONPATH={packages} TMPDIR={packages}"
    settings = ProbeSettings(sys.executable, setup, backend="gloo", step_deadline=8.0, init="env")
    cluster = Cluster("test", Product.CPU, HOSTS, probe=settings, port_names={free_port(): "master"})
    with Agents(cluster, HOSTS, LocalTransport(Options()), ProbeWorkload("gloo")) as agents:
        conductor = Conductor(agents, "gloo", lambda _: None, Venue.of(cluster))
        conductor.roll_call(HOSTS, float("inf"))
        conductor.deadline = settings.step_deadline
        yield conductor


def meet(conductor: Conductor, venue: Venue, scope: Scope = Scope.ALL) -> list[Observation]:
    conductor._venue = venue
    places = [(host.name, device.index) for host in HOSTS for device in DEVICES]
    members = tuple(Member(host, device, rank) for rank, (host, device) in enumerate(places))
    name = f"r{next(ROUNDS)}"
    return conductor.play(Round(name, (RankGroup(f"{name}g0", members, (TEST,), scope),), lanes=1), float("inf"))


def findings(seen: list[Observation]) -> list[Finding]:
    check = all_checks()["PRB101"]
    cluster = Cluster("test", Product.CPU, HOSTS, probe=ProbeSettings(backend="gloo"))
    return list(check.function(All(check, cluster, HOSTS), tuple(seen), None, None))


@pytest.mark.parametrize("init", ["env", "tcp", "file", "store"])
def test_all_ranks_meet_as_jobs_do_and_leave_nothing(conductor: Conductor, init: str, tmp_path: Path) -> None:
    venue = Venue(init, free_port(), str(tmp_path))
    seen = meet(conductor, venue)
    assert [test.test.outcome for test in seen] == [TestOutcome.PASS, TestOutcome.PASS]
    assert seen[0].meeting is not None
    at = {"file": "g0", "store": conductor.ready["node01"].store}
    assert seen[0].meeting.place.endswith(str(at.get(init, venue.port)))
    assert not list(tmp_path.iterdir())
    with socket.socket() as job:
        job.bind(("", venue.port))  # without SO_REUSEADDR: TIME-WAIT would refuse it


def test_a_smaller_group_meets_at_the_agents_store(conductor: Conductor) -> None:
    """There is one master port, and several groups at a time."""
    seen = meet(conductor, Venue("env", free_port()), Scope.HOST)
    assert seen[0].test.outcome is TestOutcome.PASS
    assert seen[0].meeting is not None
    assert seen[0].meeting.place == f"127.0.0.1:{conductor.ready['node01'].store}"


def test_a_port_that_is_taken_is_named(conductor: Conductor) -> None:
    with socket.create_server(("", 0)) as other:
        (finding,) = findings(meet(conductor, Venue("env", other.getsockname()[1])))
    assert (finding.host, finding.device) == ("node01", 0)
    assert finding.cause == "another process holds the port on which rank 0 has to listen"


def test_a_directory_that_is_not_there_is_named(conductor: Conductor) -> None:
    found = findings(meet(conductor, Venue("file", 0, "/nowhere")))
    assert {finding.host for finding in found} == {"node01", "node02"}
    assert all("shared_dir /nowhere: No such file or directory" in finding.summary for finding in found)


def test_a_directory_that_is_not_shared_is_named_where_it_is_another(conductor: Conductor, tmp_path: Path) -> None:
    folder = tmp_path / "not-shared"
    folder.mkdir()
    (finding,) = findings(meet(conductor, Venue("file", 0, str(folder))))
    assert (finding.host, finding.device) == ("node02", 1)
    assert "this is not the same directory as on rank 0" in finding.summary
    assert not list(folder.iterdir())
