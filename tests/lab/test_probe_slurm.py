"""The probe over another launcher than ssh: one step of a Slurm job a host, by the real slurmctld, slurmd and srun."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from preflight.model.cluster import Host
from preflight.model.measure import TestOutcome
from preflight.probe import agents
from preflight.probe.agents import Agents
from preflight.probe.messages import Ready
from preflight.probe.run import probe
from preflight.transport.bootstrap import command_line, source_bytes
from preflight.transport.process import Process, ProcessChannel
from preflight.transport.troubles import Place
from preflight.transport.types import Program
from tests.unit.test_probe_agents import TOGETHER, cluster, gone_within, mark, name, processes

__all__ = ["mark"]  # the fixture

pytestmark = pytest.mark.lab

NODES = ("node01", "node02")
CONFIGURATION = """
ClusterName=preflight
SlurmctldHost={machine}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={place}
SlurmdSpoolDir={place}/%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
NodeName=node01 NodeHostname={machine} NodeAddr=127.0.0.1 Port={ports[1]}
NodeName=node02 NodeHostname={machine} NodeAddr=127.0.0.1 Port={ports[2]}
PartitionName=all Nodes=node[01-02] Default=YES State=UP
"""


class Slurm:
    """A launcher: a step of its own for each host, within a job that has them all."""

    def __init__(self, environment: Mapping[str, str], job: str) -> None:
        self.environment, self.job = environment, job
        self.steps: list[Process] = []

    def start(self, host: Host, program: Program, *, timeout: float) -> ProcessChannel:
        step = ("srun", f"--jobid={self.job}", "--nodes=1", "--ntasks=1", f"--nodelist={host.name}", "--overlap")
        process = Process(
            (*step, f"--immediate={timeout:.0f}", "sh", "-c", command_line(program, sudo=False)), self.environment
        )
        self.steps.append(process)
        channel = ProcessChannel(process, Place(host.name, "srun"), grace=3.0, explain=lambda *_: None)
        channel.begin(source_bytes(program) + program.payload)
        return channel


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    """A job that holds both nodes of a cluster of two, both on this machine."""
    configuration = tmp_path / "slurm.conf"
    text = CONFIGURATION.format(machine=socket.gethostname(), place=tmp_path, ports=free_ports(3))
    configuration.write_text(text)
    environment = {**os.environ, "SLURM_CONF": str(configuration)}

    def call(*command: str) -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30)
        return done.stdout + done.stderr

    try:
        call("slurmctld", "-i")
        for node in NODES:
            (tmp_path / node).mkdir()
            call("slurmd", "-N", node)
        call("salloc", "--nodes=2", "--no-shell", "--quiet")
        yield Slurm(environment, call("squeue", "--noheader", "--format=%A").strip())
    finally:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"SLURM_CONF={configuration}\0".encode() in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


def test_agents_that_are_steps_of_a_slurm_job_pass_every_test(slurm: Slurm, mark: str) -> None:
    both = cluster(mark)
    observations = probe(both, both.hosts, slurm, TOGETHER).observations
    assert {seen.test.outcome for seen in observations} == {TestOutcome.PASS}
    assert {member.host for seen in observations for member in seen.test.members} == set(NODES)


def test_agents_end_when_srun_is_killed(slurm: Slurm, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "BEAT", 0.3)
    monkeypatch.setattr(agents, "SILENCE", 3.0)
    both = cluster(mark)
    with Agents(both, both.hosts, slurm, "hccl") as started:
        ready: set[str] = set()
        until = time.monotonic() + 60
        while ready != set(NODES) and time.monotonic() < until:
            ready |= {said.host for said in started.said(0.2) if isinstance(said.message, Ready)}
        assert "preflight-agent" in map(name, processes(mark))
        for step in slurm.steps:
            step.kill()
        assert gone_within(8, mark) == []
