"""Workers and agents that misbehave, and clusters of strange shapes."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.model.cluster import Cluster, Device, Host
from preflight.model.measure import End, TestOutcome, kept_waiting
from preflight.probe.run import probe
from preflight.transport.local import LocalTransport
from preflight.transport.types import Channel, Options, Program, Progress
from tests.unit.probe.test_agents import TOGETHER, cluster, failing, mark, name, pairs, processes, run, world

__all__ = ["mark"]  # the fixture

PASS = {TestOutcome.PASS}


def of(cluster: Cluster, **devices: int) -> Cluster:
    """The same cluster, of these hosts with so many devices each."""
    hosts = (Host(name, "127.0.0.1", devices=tuple(map(Device, range(count)))) for name, count in devices.items())
    return replace(cluster, hosts=tuple(hosts))


def test_a_worker_s_process_that_forks_away_into_a_session_of_its_own_is_ended_with_its_round(mark: str) -> None:
    """It would keep the device."""
    away: dict[str, list[int]] = {}

    def look(progress: Progress) -> None:
        away.setdefault(progress.phase[:13], []).extend(pid for pid in processes(mark) if name(pid) == "runaway")

    assert {seen.test.outcome for seen in run(cluster(mark, "fork-away 0", FAULT_IN="2"), look)} == PASS
    assert away["probe round 1"]
    assert not away["probe round 2"]


def test_a_worker_that_ignores_polite_signals_ends_at_its_deadline(mark: str) -> None:
    (view,) = kept_waiting(failing(world(run(cluster(mark, "stubborn 3", deadline=3.0)))))
    assert (view.member.rank, view.end, view.stage) == (3, End.OVERDUE, "torch")


def test_a_worker_that_cannot_be_killed_costs_its_device_and_not_its_host(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one inside a driver. Here the agent's SIGKILL misses rank 3, until it ends everything."""
    monkeypatch.setattr("preflight.probe.round_state.DYING", 1.0)
    monkeypatch.setattr("preflight.probe.lines.FAREWELL", 0.5)
    two = cluster(mark, "stubborn 3", deadline=3.0)

    class Missing(LocalTransport):
        def start(self, host: Host, program: Program, *, timeout: float) -> Channel:  # type: ignore[override]
            source = program.source.replace("if not worker.ended:", "if not worker.ended and worker.rank != 3:")
            source = source.replace("os.killpg(self.pgid, signal.SIGKILL)", "pass")
            assert source != program.source
            return super().start(host, replace(program, source=source), timeout=timeout)

    observations = probe(two, two.hosts, Missing(Options()), TOGETHER).observations
    (view,) = kept_waiting(failing(world(observations)))
    assert (view.member.place, view.end, view.held) == ("node02/1", End.OVERDUE, True)
    held_in = failing(world(observations)).test.round
    later = [seen for seen in observations if seen.test.round > held_in]
    assert "node02/1" not in {member.place for seen in later for member in seen.test.members}
    assert {seen.test.outcome for seen in later} == PASS


def test_a_worker_that_writes_over_its_report_breaks_nothing(mark: str) -> None:
    assert {seen.test.outcome for seen in run(cluster(mark, "scribble 1"))} == PASS


def test_a_frozen_agent_ends_its_own_tests_alone(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preflight.probe.round_state.SLACK", 1.0)
    monkeypatch.setattr("preflight.probe.lines.FAREWELL", 0.5)
    observations = run(cluster(mark, "freeze-agent 2", deadline=3.0))
    assert {view.member.host for view in kept_waiting(failing(world(observations)))} == {"node02"}
    assert {seen.test.outcome for seen in pairs(observations)} == PASS


@pytest.mark.parametrize("devices", [{"node01": 1}, {"node01": 3, "node02": 1}, {"node01": 1, "node02": 1}])
def test_clusters_of_any_shape_pass(mark: str, devices: dict[str, int]) -> None:
    observations = run(of(cluster(mark), **devices))
    assert {seen.test.outcome for seen in observations} <= {*PASS, TestOutcome.SLOW}  # as slow as a busy machine is
    assert max(len(seen.test.members) for seen in observations) == sum(devices.values())


def test_a_port_that_somebody_took_meanwhile_is_passed_over(mark: str) -> None:
    """Those who took it listen before any agent does; ranks then meet at the next one."""
    with socket.socket() as first, socket.socket() as second:
        for taken in (first, second):
            taken.bind(("127.0.0.1", 0))
            taken.listen()
        names = {taken.getsockname()[1]: "the job's" for taken in (first, second)}
        assert {seen.test.outcome for seen in run(replace(cluster(mark), port_names=names))} == PASS


def test_another_user_s_place_for_records_is_no_obstacle(mark: str) -> None:
    """Whoever may write to /tmp may be first there, too."""
    place = Path(f"/tmp/{mark}/preflight-{os.geteuid()}")
    place.symlink_to("/etc")
    assert {seen.test.outcome for seen in run(cluster(mark))} == PASS
    assert not processes(mark)
