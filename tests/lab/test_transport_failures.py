"""The transports against a real sshd: each way of failing with its kind, sentence and remedy."""

import contextlib
import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.transport import ErrorKind, Program
from tests.lab.sshd import Sshd, free_port, new_key, running
from tests.lab.ways_in import failure, local_host, run

pytestmark = pytest.mark.lab


def test_a_name_that_does_not_resolve(server: Sshd, transport: str) -> None:
    error = failure(replace(server.host(transport), address="no-such-host.invalid"))
    assert error.kind is ErrorKind.RESOLVE
    assert "no-such-host.invalid" in error.summary


def test_a_port_where_nobody_listens(server: Sshd, transport: str) -> None:
    port = free_port()
    error = failure(server.host(transport, port=port))
    assert error.kind is ErrorKind.REFUSED
    assert f"127.0.0.1:{port}" in error.summary
    assert "Connection refused" in error.summary


def test_a_server_that_hangs_up_before_login(server: Sshd, transport: str) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=hang_up, args=(listener,), daemon=True).start()
        error = failure(server.host(transport, port=listener.getsockname()[1]))
    assert error.kind is ErrorKind.REFUSED
    assert "before login" in error.summary


def test_a_listener_that_never_says_anything(server: Sshd, transport: str) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        started = time.monotonic()
        error = failure(server.host(transport, port=listener.getsockname()[1]), connect_timeout=1.0)
    assert error.kind is ErrorKind.TIMEOUT
    assert "ssh banner" in error.summary
    assert time.monotonic() - started < 4


def test_a_server_that_speaks_nonsense_is_the_hosts_fault(server: Sshd, transport: str) -> None:
    def nonsense(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as connection:
                    # A packet of 12 bytes whose padding is longer than itself, and then noise.
                    connection.sendall(b"SSH-2.0-odd\r\n" + b"\x00\x00\x00\x0c\xff\x14" + os.urandom(2000))
                    time.sleep(0.2)

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=nonsense, args=(listener,), daemon=True).start()
        error = failure(server.host(transport, port=listener.getsockname()[1]), timeout=10)
    assert error.kind is ErrorKind.REFUSED
    assert "before login" in error.summary


def test_a_server_that_babbles_before_its_banner_does_not_outlast_the_deadline(server: Sshd, transport: str) -> None:
    def babble(listener: socket.socket) -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            while True:
                connection.sendall(b"please wait\r\n")
                time.sleep(0.2)

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=babble, args=(listener,), daemon=True).start()
        started = time.monotonic()
        error = failure(server.host(transport, port=listener.getsockname()[1]), timeout=2)
    assert error.kind is ErrorKind.TIMEOUT
    assert time.monotonic() - started < 4


def test_a_program_that_takes_too_long(server: Sshd, transport: str) -> None:
    # A loaded machine takes its time to log in.
    error = failure(server.host(transport), "import time; time.sleep(20)", timeout=5)
    assert error.kind is ErrorKind.TIMEOUT
    assert "waiting for the program" in error.summary


def test_a_key_that_the_server_does_not_accept(server: Sshd, tmp_path: Path, transport: str) -> None:
    error = failure(server.host(transport, key=str(new_key(tmp_path / "other"))))
    assert error.kind is ErrorKind.AUTHENTICATION
    assert "ssh -o BatchMode=yes" in error.commands[0]


def test_an_encrypted_key_without_agent_is_named(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # fabric only: the system's ssh does not say why it left a key out.
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    key = new_key(tmp_path / "locked", passphrase="secret")
    error = failure(server.host("fabric", key=str(key)))
    assert error.kind is ErrorKind.AUTHENTICATION
    assert f"{key} is encrypted" in error.summary
    assert error.commands == (f"ssh-add {key}",)


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_a_host_without_python(server: Sshd, kind: str) -> None:
    host = local_host() if kind == "local" else server.host(kind)
    error = failure(host, Program("pass", python="python3-that-is-not-there"))
    assert error.kind is ErrorKind.NO_PYTHON
    assert "python3-that-is-not-there" in error.summary


def test_sudo_that_wants_a_password(tmp_path: Path, transport: str) -> None:
    as_nobody = 'ForceCommand exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "$SSH_ORIGINAL_COMMAND"'
    with running(tmp_path, as_nobody) as sshd:
        error = failure(sshd.host(transport, sudo=True))
        assert error.kind is ErrorKind.SUDO
        assert "password is required" in error.summary
        assert "NOPASSWD" in error.commands[0]
        assert run(sshd.host(transport), "import os; print(os.getuid())").stdout == b"65534\n"


def test_sudo_to_a_user_who_does_not_exist(server: Sshd, transport: str) -> None:
    error = failure(server.host(transport), Program("pass", user="no-such-user"))
    assert error.kind is ErrorKind.SUDO
    assert "no-such-user" in error.summary


def test_root_needs_no_sudo_and_another_user_is_reached_through_it(server: Sshd, transport: str) -> None:
    who = "import os; print(os.getuid())"
    assert run(server.host(transport, sudo=True), who).stdout == b"0\n"
    assert run(server.host(transport), Program(who, user="nobody")).stdout == b"65534\n"


def test_a_connection_that_breaks_while_the_program_runs(server: Sshd, transport: str) -> None:
    error = failure(
        server.host(transport), "import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(9)"
    )
    assert error.kind is ErrorKind.CLOSED


def test_a_program_may_use_sshs_own_exit_code(server: Sshd, transport: str) -> None:
    assert run(server.host(transport), "import sys; sys.exit(255)").exit == 255


def test_paramiko_keeps_quiet(server: Sshd, capfd: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=hang_up, args=(listener,), daemon=True).start()
        failure(server.host("fabric", port=listener.getsockname()[1]))
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def hang_up(listener: socket.socket) -> None:
    """Take every connection and end it at once."""
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()
