"""Agents that outlive their run: ended by their own clock, or by the next run of the same user; live ones are left."""

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.model.cluster import Cluster
from preflight.model.measure import TestOutcome
from preflight.probe import agents
from preflight.probe.hooks import Hooks
from preflight.probe.run import probe
from preflight.transport.local import LocalTransport
from preflight.transport.types import Options
from tests.unit.probe.test_agents import (
    MARK,
    TOGETHER,
    cluster,
    gone_within,
    mark,
    name,
    processes,
    state,
    wait_until,
)

__all__ = ["mark"]  # the fixture

REMOTE = Path(__file__).parents[3] / "preflight/remote"
PASS = {TestOutcome.PASS}

# What a container's runtime may do: the program inside is not its child, and does not see the end of its input. The
# last cat only reads: it ends with the program, as it must, and takes what the shell has left with it.
SWALLOW = """
pipes=$(mktemp -d "$1/XXXXXX"); shift
mkfifo "$pipes/in" "$pipes/out"; exec 3<>"$pipes/in" 4<>"$pipes/out" 5<&0
setsid "$@" <&3 >&4 3>&- 4>&- & cat <&5 >&3 3>&- 4>&- & exec cat <"$pipes/out" 3>&- 4>&-
"""

CONTROLLER = """
import sys
sys.path.insert(0, {root!r})
from preflight.probe import agents
from tests.unit.probe.test_agents_left_over import in_container
from tests.unit.probe.test_agents import cluster, run
agents.BEAT, agents.SILENCE = 0.3, {silence}
run({cluster})
"""


def in_container(cluster: Cluster, mark: str) -> Cluster:
    """Agents that are started by a runtime that does not forward the end of input."""
    wrapper = ("env", f"{MARK}={mark}", "sh", "-c", SWALLOW, "runtime", f"/tmp/{mark}")  # the mark finds it, too
    return replace(cluster, probe=replace(cluster.probe, wrapper=wrapper))


@contextlib.contextmanager
def controller(cluster: str, silence: float) -> Iterator[subprocess.Popen[bytes]]:
    """A probe in a process of its own, up to the moment at which a rank stands still."""
    code = CONTROLLER.format(root=str(Path(__file__).parents[3]), cluster=cluster, silence=silence)
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stuck(mark: str) -> bool:
    return any(state(pid) == "T" for pid in processes(mark))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "BEAT", 0.3)
    monkeypatch.setattr(agents, "SILENCE", 3.0)


def test_behind_a_runtime_that_swallows_the_end_of_input_agents_end_by_their_own_clock(mark: str) -> None:
    with controller(f"in_container(cluster({mark!r}, 'stop 1', deadline=300.0), {mark!r})", silence=3.0) as process:
        wait_until(lambda: stuck(mark))
        assert {"preflight-agent", "cat"} <= set(map(name, processes(mark)))
        process.kill()
        assert gone_within(8, mark) == []


def test_what_a_crashed_run_left_is_ended_by_the_next_one_which_says_so(mark: str) -> None:
    with controller(f"cluster({mark!r}, 'stop 1', deadline=300.0)", silence=3.0) as process:
        wait_until(lambda: stuck(mark))
        left = processes(mark)
        for pid in left:
            if name(pid) == "preflight-agent":
                os.kill(pid, signal.SIGSTOP)  # it cannot end itself any more
        process.kill()
        process.wait()
        assert {pid for pid in left if name(pid).startswith("preflight-")} <= set(processes(mark))
        notes: list[str] = []
        again = cluster(mark)
        seen = probe(again, again.hosts, LocalTransport(Options()), TOGETHER, Hooks(note=notes.append))
        assert {one.test.outcome for one in seen.observations} == PASS
        assert not set(left) & set(processes(mark))
        # Both hosts are this machine: the agent that looks first ends what either had left.
        assert any(": ended processes that an earlier probe left behind: run " in note for note in notes), notes
        assert all(f"of {getpass.getuser()}@{socket.gethostname()}, started 20" in note for note in notes), notes


def test_an_agent_of_a_run_that_is_alive_is_left_alone_and_its_host_left_out_with_its_owner_s_name(mark: str) -> None:
    with controller(f"cluster({mark!r}, 'stop 1', deadline=300.0)", silence=3.0):
        wait_until(lambda: stuck(mark))
        before = processes(mark)
        again = cluster(mark)
        seen = probe(again, again.hosts, LocalTransport(Options()), TOGETHER)
        assert seen.observations == ()
        who = f"this host is being probed by {getpass.getuser()}@{socket.gethostname()} (run "
        assert {host: why.startswith(who) for host, why in seen.busy.items()} == {"node01": True, "node02": True}
        assert set(before) <= set(processes(mark))
