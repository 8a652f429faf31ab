"""The transports through a bastion, a real sshd as well."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.model.cluster import Bastion
from preflight.transport import ErrorKind, FanOutLimits, Options, Program, fan_out, open_transport
from tests.lab.sshd import Sshd, free_port, running
from tests.lab.ways_in import ECHO, cluster, failure, fingerprint, logins, on_record, run

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def bastion(tmp_path_factory: pytest.TempPathFactory, server: Sshd) -> Iterator[Sshd]:
    """A second server that takes the first one's key; its host key stands in the same known_hosts file."""
    directory = tmp_path_factory.mktemp("sshd") / "bastion"
    with running(directory) as sshd:
        authorized = directory / "authorized_keys"
        authorized.write_text(authorized.read_text() + server.key.with_suffix(".pub").read_text())
        yield sshd


def both_known(server: Sshd, bastion: Sshd, tmp_path: Path) -> str:
    path = tmp_path / "known_hosts"
    path.write_text(server.known_hosts.read_text() + bastion.known_hosts.read_text())
    return str(path)


def test_hosts_are_reached_through_a_bastion(server: Sshd, bastion: Sshd, tmp_path: Path, transport: str) -> None:
    known_hosts = both_known(server, bastion, tmp_path)
    host = server.host(transport, bastion=bastion.bastion, known_hosts=known_hosts)
    assert run(host, Program(ECHO, payload=b"through")).stdout == b"through"


def test_many_hosts_share_one_bastion_connection(server: Sshd, bastion: Sshd, tmp_path: Path) -> None:
    # fabric only: the system's ssh connects to the bastion once for every host.
    known_hosts = both_known(server, bastion, tmp_path)
    host = server.host("fabric", bastion=bastion.bastion, known_hosts=known_hosts)
    hosts = [replace(host, name=f"node{i:02}") for i in range(12)]
    before = logins(bastion)
    with open_transport(cluster(*hosts), Options()) as opened:
        results = fan_out(hosts, lambda h: opened.run(h, Program("print(1)"), timeout=30), FanOutLimits(12, 40))
    assert [getattr(result, "stdout", result) for result in results.values()] == [b"1\n"] * 12
    assert logins(bastion) == before + 1


def test_a_connection_behind_a_bastion_is_not_parked(server: Sshd, bastion: Sshd, tmp_path: Path) -> None:
    host = server.host("fabric", bastion=bastion.bastion, known_hosts=both_known(server, bastion, tmp_path))
    before = logins(server)
    with open_transport(cluster(host), Options(parked=5)) as opened:
        assert [opened.run(host, Program("print(1)"), timeout=30).stdout for _ in range(2)] == [b"1\n"] * 2
    assert logins(server) == before + 2


def test_the_bastions_host_key_is_held_to_the_same_policy(
    server: Sshd, bastion: Sshd, tmp_path: Path, transport: str
) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(server.known_hosts.read_text())
    host = server.host(transport, bastion=bastion.bastion, known_hosts=str(known_hosts))
    error = failure(host)
    assert error.kind is ErrorKind.BASTION
    assert fingerprint(bastion.directory / "host_ed25519.pub") in error.summary
    notices: list[str] = []
    assert run(host, "pass", accept_new=True, notice=notices.append).exit == 0
    assert len(notices) == 1
    assert "bastion" in notices[0]
    assert bastion.host_key in on_record(known_hosts, bastion)


def test_a_bastion_that_is_not_there_fails_once_for_all(server: Sshd, transport: str) -> None:
    host = server.host(transport, bastion=Bastion("127.0.0.1", port=free_port()))
    error = failure(host)
    assert error.kind is ErrorKind.BASTION
    assert "Connection refused" in error.summary


def test_a_host_that_the_bastion_cannot_reach(server: Sshd, bastion: Sshd, tmp_path: Path, transport: str) -> None:
    known_hosts = both_known(server, bastion, tmp_path)
    error = failure(server.host(transport, port=free_port(), bastion=bastion.bastion, known_hosts=known_hosts))
    assert error.kind is ErrorKind.REFUSED


def test_a_bastion_that_does_not_forward(server: Sshd, tmp_path: Path, transport: str) -> None:
    with running(tmp_path / "closed", "AllowTcpForwarding no") as closed:
        authorized = closed.directory / "authorized_keys"
        authorized.write_text(server.key.with_suffix(".pub").read_text())
        known_hosts = both_known(server, closed, tmp_path)
        error = failure(server.host(transport, bastion=closed.bastion, known_hosts=known_hosts))
    assert error.kind is ErrorKind.BASTION
    assert "AllowTcpForwarding" in error.remedy
