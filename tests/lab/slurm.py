"""Slurm itself: slurmctld on this machine, a slurmd a node, and a job that has all nodes."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path

import pytest

from tests.lab.conftest import LabHandle

# Without munge: everybody on these networks is believed. The configuration is for tests alone.
CONFIGURATION = """
ClusterName=preflight
SlurmctldHost={machine}({address})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={place}
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={spool}/%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={spool}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
{nodes}
PartitionName=all Nodes={names} Default=YES State=UP
"""
ON_HOST = """cat > /run/slurm.conf <<'END'
{configuration}
END
mkdir -p /tmp/{name} && SLURM_CONF=/run/slurm.conf slurmd -N {name}"""


@dataclass(frozen=True)
class Slurm:
    """A job that holds all nodes: its number, and what leads Slurm's commands to its cluster."""

    environment: Mapping[str, str]
    job: str


@contextmanager
def _controller(place: Path, address: str, spool: str, nodes: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The environment of Slurm's commands, while slurmctld runs. `nodes`: name → the rest of its line."""
    configuration = place / "slurm.conf"
    lines = "\n".join(f"NodeName={name} {rest}" for name, rest in nodes.items())
    words = {"machine": socket.gethostname(), "address": address, "port": free_ports(1)[0]}
    configuration.write_text(
        CONFIGURATION.format(place=place, spool=spool, nodes=lines, names=",".join(nodes), **words)
    )
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    try:
        call(environment, "slurmctld", "-i")
        yield environment
    finally:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"SLURM_CONF={configuration}\0".encode() in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


def call(environment: Mapping[str, str], *command: str) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def _job(environment: Mapping[str, str], nodes: int) -> Slurm:
    call(environment, "salloc", f"--nodes={nodes}", "--no-shell", "--quiet")
    return Slurm(environment, call(environment, "squeue", "--noheader", "--format=%A").strip())


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    """Two nodes, both this machine."""
    machine = socket.gethostname()
    ports = dict(zip(("node01", "node02"), free_ports(2), strict=True))
    nodes = {name: f"NodeHostname={machine} NodeAddr=127.0.0.1 Port={port}" for name, port in ports.items()}
    with _controller(tmp_path, "127.0.0.1", str(tmp_path), nodes) as environment:
        for name in nodes:
            (tmp_path / name).mkdir()
            call(environment, "slurmd", "-N", name)
        yield _job(environment, len(nodes))


@contextmanager
def slurm_over(lab: LabHandle, place: Path) -> Iterator[Slurm]:
    """The hosts of a lab as nodes."""
    network = ip_interface(f"{next(iter(lab.addresses.values()))}/24").network
    nodes = {name: f"NodeAddr={address}" for name, address in lab.addresses.items()}
    with _controller(place, str(network[1]), "/tmp", nodes) as environment:
        try:
            for name in nodes:
                configuration = (place / "slurm.conf").read_text()
                done = lab.ssh(name, ON_HOST.format(configuration=configuration, name=name))
                assert done.returncode == 0, done.stderr
            yield _job(environment, len(nodes))
        finally:
            for name in nodes:
                lab.ssh(name, f"kill $(cat /tmp/{name}.pid)")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
