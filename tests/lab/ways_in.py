"""What the tests of the transports share: one program on one host, how it failed, and what the server has on record."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.model.cluster import Cluster, Host, Product, Ssh
from preflight.transport import Answer, Options, Program, TransportError, open_transport
from tests.lab.sshd import Sshd

ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


def run(host: Host, program: Program | str, *, timeout: float = 20, limit: int = 8 << 20, **options: object) -> Answer:
    """One program on one host, from opening the transport to closing it."""
    program = Program(program) if isinstance(program, str) else program
    with open_transport(cluster(host), Options(**options)) as opened:  # type: ignore[arg-type]
        return opened.run(host, program, timeout=timeout, limit=limit)


def failure(host: Host, program: Program | str = "pass", **settings: object) -> TransportError:
    with pytest.raises(TransportError) as raised:
        run(host, program, **settings)  # type: ignore[arg-type]
    assert raised.value.summary.startswith("node01: ")
    assert raised.value.remedy
    assert "\n" not in raised.value.summary + raised.value.remedy
    return raised.value


def cluster(*hosts: Host) -> Cluster:
    return Cluster("test", Product.CPU, hosts)


def local_host() -> Host:
    return Host("node01", "127.0.0.1", Ssh(transport="local"))


def fingerprint(public_key: Path) -> str:
    listed = subprocess.run(["ssh-keygen", "-lf", str(public_key)], check=True, capture_output=True, text=True)
    return listed.stdout.split()[1]


def on_record(known_hosts: Path, sshd: Sshd) -> str:
    """What OpenSSH's own reader finds for the server in the file."""
    command = ["ssh-keygen", "-F", sshd.known_as, "-f", str(known_hosts)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def logins(sshd: Sshd) -> int:
    return (sshd.directory / "sshd.log").read_text().count("Accepted publickey")


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
