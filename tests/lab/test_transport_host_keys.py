"""The transports against a real sshd: host keys that are known, unknown, changed and revoked."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.transport import Answer, ErrorKind, FanOutLimits, Options, Program, fan_out, open_transport
from tests.lab.sshd import Sshd, new_key
from tests.lab.ways_in import cluster, failure, fingerprint, on_record, run

pytestmark = pytest.mark.lab


def test_an_unknown_host_key_is_refused_and_shown(server: Sshd, tmp_path: Path, transport: str) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("")
    error = failure(server.host(transport, known_hosts=str(known_hosts)))
    assert error.kind is ErrorKind.HOST_KEY_UNKNOWN
    assert fingerprint(server.directory / "host_ed25519.pub") in error.summary
    assert str(known_hosts) in error.summary
    assert "--accept-new" in error.remedy
    assert known_hosts.read_text() == ""


def test_accept_new_writes_one_line_and_says_so_once(server: Sshd, tmp_path: Path, transport: str) -> None:
    known_hosts = tmp_path / "known_hosts"
    host = server.host(transport, known_hosts=str(known_hosts))
    notices: list[str] = []
    run(host, "pass", accept_new=True, notice=notices.append)
    run(host, "pass", accept_new=True, notice=notices.append)
    assert run(host, "pass").exit == 0
    assert len(notices) == 1
    assert fingerprint(server.directory / "host_ed25519.pub") in notices[0]
    assert len(known_hosts.read_text().splitlines()) == 1
    assert server.host_key in on_record(known_hosts, server)


def test_a_known_hosts_file_without_a_newline_at_its_end_is_appended_to_whole(server: Sshd, tmp_path: Path) -> None:
    # fabric only: OpenSSH 9.2 glues its line to the last one.
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("other.example ssh-ed25519 AAAA")
    run(server.host("fabric", known_hosts=str(known_hosts)), "pass", accept_new=True, notice=lambda _: None)
    assert known_hosts.read_text().startswith("other.example ssh-ed25519 AAAA\n")
    assert server.host_key in on_record(known_hosts, server)


def test_many_threads_that_meet_a_new_host_write_one_line(server: Sshd, tmp_path: Path) -> None:
    # fabric only: with openssh each ssh process writes for itself.
    known_hosts = tmp_path / "known_hosts"
    host = server.host("fabric", known_hosts=str(known_hosts))
    hosts = [replace(host, name=f"node{i:02}") for i in range(8)]
    with open_transport(cluster(*hosts), Options(accept_new=True, notice=lambda _: None)) as opened:
        results = fan_out(hosts, lambda h: opened.run(h, Program("pass"), timeout=20), FanOutLimits(8, 30))
    assert all(isinstance(result, Answer) for result in results.values())
    assert len(known_hosts.read_text().splitlines()) == 1
    assert server.host_key in on_record(known_hosts, server)
    assert known_hosts.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("accept_new", [False, True])
def test_a_changed_host_key_is_always_refused(server: Sshd, tmp_path: Path, transport: str, accept_new: bool) -> None:
    other = new_key(tmp_path / "other").with_suffix(".pub")
    known_hosts = tmp_path / "known_hosts"
    before = f"# reinstalled?\n{server.known_as} {' '.join(other.read_text().split()[:2])}\n"
    known_hosts.write_text(before)
    error = failure(server.host(transport, known_hosts=str(known_hosts)), accept_new=accept_new)
    assert error.kind is ErrorKind.HOST_KEY_CHANGED
    assert fingerprint(server.directory / "host_ed25519.pub") in error.summary
    assert fingerprint(other) in error.summary
    assert f"{known_hosts}:2" in error.summary
    assert f"ssh-keygen -R '{server.known_as}' -f {known_hosts}" in error.commands
    assert known_hosts.read_text() == before


@pytest.mark.parametrize("accept_new", [False, True])
def test_a_revoked_host_key_is_refused(server: Sshd, tmp_path: Path, transport: str, accept_new: bool) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"{server.known_as} {server.host_key}\n@revoked * {server.host_key}\n")
    error = failure(server.host(transport, known_hosts=str(known_hosts)), accept_new=accept_new)
    assert error.kind is ErrorKind.HOST_KEY_CHANGED
    assert "revoked" in error.summary


def test_hashed_names_and_lines_nobody_understands_do_no_harm(server: Sshd, tmp_path: Path, transport: str) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"{server.known_as} {server.host_key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known_hosts)], check=True, stderr=subprocess.DEVNULL)
    hashed = known_hosts.read_text()
    assert server.known_as not in hashed
    odd = "\n# comment\n@cert-authority * ssh-ed25519 AAAA\n|1|damaged ssh-rsa x\n@strange a b c\nhalf\n\xe9 \x01\n"
    known_hosts.write_text(odd + hashed)
    assert run(server.host(transport, known_hosts=str(known_hosts)), "pass").exit == 0
