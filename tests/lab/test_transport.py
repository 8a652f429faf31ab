"""The transports against a real sshd: what works, and each way of failing with its trouble, sentence and remedy.

fabric and openssh go through the same tests; where only one of them is meant, the test says why.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.model.cluster import Bastion, Cluster, Host, Product, Ssh
from preflight.transport import Answer, Options, Program, TransportError, Trouble, fan_out, open_transport
from tests.lab.sshd import Sshd, free_port, new_key, running

pytestmark = pytest.mark.lab

ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running(tmp_path_factory.mktemp("sshd") / "server") as sshd:
        yield sshd


@pytest.fixture(params=["fabric", "openssh"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


# --- what works ---


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_a_program_gets_its_payload_and_its_exit_code_comes_back(server: Sshd, kind: str) -> None:
    host = local_host() if kind == "local" else server.host(kind)
    source = "import sys\nprint(__name__, sys.stdin.buffer.read())\nprint('é', file=sys.stderr)\nsys.exit(3)"
    answer = run(host, Program(source, payload=b"rest\x00\xff\n"))
    assert answer.stdout == b"__main__ b'rest\\x00\\xff\\n'\n"
    assert answer.stderr.decode() == "é\n"
    assert (answer.exit, answer.truncated) == (3, False)


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_binary_output_larger_than_any_window_arrives_byte_for_byte(server: Sshd, kind: str) -> None:
    data = os.urandom(5 << 20)
    answer = run(local_host() if kind == "local" else server.host(kind), Program(ECHO, payload=data))
    assert answer.stdout == data


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_endless_output_is_cut_at_the_limit(server: Sshd, kind: str) -> None:
    host = local_host() if kind == "local" else server.host(kind)
    answer = run(host, "import sys\nwhile True: sys.stdout.write('x' * 4096)", limit=100_000)
    assert answer.truncated
    assert answer.stdout == b"x" * 100_000


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_only_the_end_of_an_endless_stderr_is_kept(server: Sshd, kind: str) -> None:
    host = local_host() if kind == "local" else server.host(kind)
    answer = run(
        host, "import sys\nfor i in range(1000): sys.stderr.write('x' * 4095 + '\\n')\nsys.stderr.write('end')"
    )
    assert len(answer.stderr) == 64 << 10
    assert answer.stderr.endswith(b"x\nend")


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_a_program_that_never_stops_writing_to_stderr_is_cut_off(server: Sshd, kind: str) -> None:
    host = local_host() if kind == "local" else server.host(kind)
    answer = run(host, "import sys\nwhile True: sys.stderr.write('x' * 4096)", timeout=60)
    assert answer.truncated
    assert answer.stderr == b"x" * (64 << 10)


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_a_program_may_write_more_than_fits_before_it_reads(server: Sshd, kind: str) -> None:
    # Either side has more to say than all buffers and windows on the way hold (2 MiB in OpenSSH).
    host = local_host() if kind == "local" else server.host(kind)
    source = "import sys; sys.stdout.buffer.write(b'x' * (12 << 20)); print(len(sys.stdin.buffer.read()))"
    answer = run(host, Program(source, payload=b"y" * (12 << 20)), limit=32 << 20)
    assert answer.stdout == b"x" * (12 << 20) + b"12582912\n"


def test_noise_of_the_login_shell_does_not_disturb_the_program(tmp_path: Path, transport: str) -> None:
    noisy = 'ForceCommand echo Welcome; echo trouble >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"'
    with running(tmp_path, noisy) as sshd:
        answer = run(sshd.host(transport), Program(ECHO, payload=b"payload"))
    assert answer.stdout == b"Welcome\npayload"
    assert answer.exit == 0


def test_a_setup_line_prepares_python_and_neither_eats_the_source_nor_writes_into_the_output(
    server: Sshd, transport: str
) -> None:
    program = Program(
        "import os, sys; print(os.environ['GREETING'], sys.stdin.read())",
        payload=b"payload",
        setup='export GREETING="it\'s"; cat; echo noise; false # not the end',
        isolated=False,
    )
    answer = run(server.host(transport), program)
    assert answer.stdout == b"it's payload\n"
    assert b"noise" in answer.stderr


def test_the_kind_of_host_key_on_record_is_asked_for(tmp_path: Path, transport: str) -> None:
    with running(tmp_path, host_keys=("rsa", "ecdsa", "ed25519")) as sshd:
        assert run(sshd.host(transport), "pass").exit == 0


def test_keys_are_also_taken_from_the_agent(server: Sshd, transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(server.directory / "agent")], stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(server.directory / "agent"))
        wait_until(lambda: (server.directory / "agent").exists())
        subprocess.run(["ssh-add", "-q", str(server.key)], check=True, stderr=subprocess.DEVNULL)
        assert run(server.host(transport, key=None), "pass").exit == 0
    finally:
        agent.terminate()
        agent.wait(timeout=5)
        (server.directory / "agent").unlink(missing_ok=True)


def test_the_users_ssh_configuration_counts_where_the_inventory_is_silent(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # fabric only: the system's ssh takes the home directory from the user database, whatever HOME says.
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(
        f"Host compute\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityFile {server.key}\n"
        f"  UserKnownHostsFile {server.known_hosts}\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(Host("node01", "compute"), "pass").exit == 0


# --- host keys ---


def test_an_unknown_host_key_is_refused_and_shown(server: Sshd, tmp_path: Path, transport: str) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("")
    error = failure(server.host(transport, known_hosts=str(known_hosts)))
    assert error.trouble is Trouble.HOST_KEY_UNKNOWN
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
        results = fan_out(hosts, lambda h: opened.run(h, Program("pass"), timeout=20), pool=8, deadline=30)
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
    assert error.trouble is Trouble.HOST_KEY_CHANGED
    assert fingerprint(server.directory / "host_ed25519.pub") in error.summary
    assert fingerprint(other) in error.summary
    assert f"{known_hosts}:2" in error.summary
    assert f"ssh-keygen -R '{server.known_as}' -f {known_hosts}" in error.remedy
    assert known_hosts.read_text() == before


@pytest.mark.parametrize("accept_new", [False, True])
def test_a_revoked_host_key_is_refused(server: Sshd, tmp_path: Path, transport: str, accept_new: bool) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"{server.known_as} {server.host_key}\n@revoked * {server.host_key}\n")
    error = failure(server.host(transport, known_hosts=str(known_hosts)), accept_new=accept_new)
    assert error.trouble is Trouble.HOST_KEY_CHANGED
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


# --- ways of failing ---


def test_a_name_that_does_not_resolve(server: Sshd, transport: str) -> None:
    error = failure(replace(server.host(transport), address="no-such-host.invalid"))
    assert error.trouble is Trouble.RESOLVE
    assert "no-such-host.invalid" in error.summary


def test_a_port_where_nobody_listens(server: Sshd, transport: str) -> None:
    port = free_port()
    error = failure(server.host(transport, port=port))
    assert error.trouble is Trouble.REFUSED
    assert f"127.0.0.1:{port}" in error.summary
    assert "Connection refused" in error.summary


def test_a_server_that_hangs_up_before_login(server: Sshd, transport: str) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=hang_up, args=(listener,), daemon=True).start()
        error = failure(server.host(transport, port=listener.getsockname()[1]))
    assert error.trouble is Trouble.REFUSED
    assert "before login" in error.summary


def test_a_listener_that_never_says_anything(server: Sshd, transport: str) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        started = time.monotonic()
        error = failure(server.host(transport, port=listener.getsockname()[1]), connect_timeout=1.0)
    assert error.trouble is Trouble.TIMEOUT
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
    assert error.trouble is Trouble.REFUSED
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
    assert error.trouble is Trouble.TIMEOUT
    assert time.monotonic() - started < 4


def test_a_program_that_takes_too_long(server: Sshd, transport: str) -> None:
    # A loaded machine takes its time to log in.
    error = failure(server.host(transport), "import time; time.sleep(20)", timeout=5)
    assert error.trouble is Trouble.TIMEOUT
    assert "waiting for the program" in error.summary


def test_a_key_that_the_server_does_not_accept(server: Sshd, tmp_path: Path, transport: str) -> None:
    error = failure(server.host(transport, key=str(new_key(tmp_path / "other"))))
    assert error.trouble is Trouble.AUTHENTICATION
    assert "ssh -o BatchMode=yes" in error.remedy


def test_an_encrypted_key_without_agent_is_named(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # fabric only: the system's ssh does not say why it left a key out.
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    key = new_key(tmp_path / "locked", passphrase="secret")
    error = failure(server.host("fabric", key=str(key)))
    assert error.trouble is Trouble.AUTHENTICATION
    assert f"{key} is encrypted" in error.summary
    assert error.remedy == f"give it to the agent: ssh-add {key}"


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_a_host_without_python(server: Sshd, kind: str) -> None:
    host = local_host() if kind == "local" else server.host(kind)
    error = failure(host, Program("pass", python="python3-that-is-not-there"))
    assert error.trouble is Trouble.NO_PYTHON
    assert "python3-that-is-not-there" in error.summary


def test_sudo_that_wants_a_password(tmp_path: Path, transport: str) -> None:
    as_nobody = 'ForceCommand exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "$SSH_ORIGINAL_COMMAND"'
    with running(tmp_path, as_nobody) as sshd:
        error = failure(sshd.host(transport, sudo=True))
        assert error.trouble is Trouble.SUDO
        assert "password is required" in error.summary
        assert "NOPASSWD" in error.remedy
        assert run(sshd.host(transport), "import os; print(os.getuid())").stdout == b"65534\n"


def test_sudo_to_a_user_who_does_not_exist(server: Sshd, transport: str) -> None:
    error = failure(server.host(transport), Program("pass", user="no-such-user"))
    assert error.trouble is Trouble.SUDO
    assert "no-such-user" in error.summary


def test_root_needs_no_sudo_and_another_user_is_reached_through_it(server: Sshd, transport: str) -> None:
    who = "import os; print(os.getuid())"
    assert run(server.host(transport, sudo=True), who).stdout == b"0\n"
    assert run(server.host(transport), Program(who, user="nobody")).stdout == b"65534\n"


def test_a_connection_that_breaks_while_the_program_runs(server: Sshd, transport: str) -> None:
    error = failure(
        server.host(transport), "import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(9)"
    )
    assert error.trouble is Trouble.CLOSED


def test_a_program_may_use_sshs_own_exit_code(server: Sshd, transport: str) -> None:
    assert run(server.host(transport), "import sys; sys.exit(255)").exit == 255


# --- bastions ---


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
        results = fan_out(hosts, lambda h: opened.run(h, Program("print(1)"), timeout=30), pool=12, deadline=40)
    assert [getattr(result, "stdout", result) for result in results.values()] == [b"1\n"] * 12
    assert logins(bastion) == before + 1


def test_the_bastions_host_key_is_held_to_the_same_policy(
    server: Sshd, bastion: Sshd, tmp_path: Path, transport: str
) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(server.known_hosts.read_text())
    host = server.host(transport, bastion=bastion.bastion, known_hosts=str(known_hosts))
    error = failure(host)
    assert error.trouble is Trouble.BASTION
    assert fingerprint(bastion.directory / "host_ed25519.pub") in error.summary
    notices: list[str] = []
    assert run(host, "pass", accept_new=True, notice=notices.append).exit == 0
    assert len(notices) == 1
    assert "bastion" in notices[0]
    assert bastion.host_key in on_record(known_hosts, bastion)


def test_a_bastion_that_is_not_there_fails_once_for_all(server: Sshd, transport: str) -> None:
    host = server.host(transport, bastion=Bastion("127.0.0.1", port=free_port()))
    error = failure(host)
    assert error.trouble is Trouble.BASTION
    assert "Connection refused" in error.summary


def test_a_host_that_the_bastion_cannot_reach(server: Sshd, bastion: Sshd, tmp_path: Path, transport: str) -> None:
    known_hosts = both_known(server, bastion, tmp_path)
    error = failure(server.host(transport, port=free_port(), bastion=bastion.bastion, known_hosts=known_hosts))
    assert error.trouble is Trouble.REFUSED


def test_a_bastion_that_does_not_forward(server: Sshd, tmp_path: Path, transport: str) -> None:
    with running(tmp_path / "closed", "AllowTcpForwarding no") as closed:
        authorized = closed.directory / "authorized_keys"
        authorized.write_text(server.key.with_suffix(".pub").read_text())
        known_hosts = both_known(server, closed, tmp_path)
        error = failure(server.host(transport, bastion=closed.bastion, known_hosts=known_hosts))
    assert error.trouble is Trouble.BASTION
    assert "AllowTcpForwarding" in error.remedy


# --- agents ---

REPEAT = (
    "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(b'> ' + line)\n    sys.stdout.flush()\n"
)


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_an_agent_answers_line_by_line_until_it_is_closed(server: Sshd, kind: str, tmp_path: Path) -> None:
    host = local_host() if kind == "local" else server.host(kind)
    gone = tmp_path / "gone"
    program = Program(REPEAT + f"open({str(gone)!r}, 'w').close()\n", payload=b"hello\n")
    with open_transport(cluster(host), Options()) as opened:
        agent = opened.start(host, program, timeout=20)
        lines = agent.lines()
        assert next(lines) == b"> hello"
        agent.send(b"again\n")
        assert next(lines) == b"> again"
        closer = threading.Timer(0.3, agent.close)  # while lines() blocks
        closer.start()
        assert list(lines) == []
        assert agent.trouble() is None
        wait_until(gone.exists)  # the program saw the end of its stdin
        with pytest.raises(TransportError) as raised:
            agent.send(b"too late\n")
        assert raised.value.trouble is Trouble.CLOSED
        agent.close()


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_an_over_long_line_of_an_agent_is_cut_and_stderr_is_drained(server: Sshd, kind: str) -> None:
    host = local_host() if kind == "local" else server.host(kind)
    source = "import sys\nsys.stderr.write('e' * (5 << 20) + 'end')\nprint('x' * (3 << 20))\nprint('next')"
    with open_transport(cluster(host), Options()) as opened:
        agent = opened.start(host, Program(source), timeout=20)
        assert [len(line) for line in agent.lines()] == [1 << 20, 4]
        assert agent.stderr_tail() == b"e" * (4096 - 3) + b"end"
        agent.close()


@pytest.mark.parametrize("kind", ["fabric", "openssh", "local"])
def test_an_agent_that_never_ran_says_why(server: Sshd, kind: str) -> None:
    host = local_host() if kind == "local" else server.host(kind)
    with open_transport(cluster(host), Options()) as opened:
        agent = opened.start(host, Program("pass", python="no-such-python"), timeout=20)
        assert list(agent.lines()) == []
        trouble = agent.trouble()
    assert trouble
    assert trouble.trouble is Trouble.NO_PYTHON


def test_an_agent_on_a_host_that_does_not_let_us_in(server: Sshd, tmp_path: Path, transport: str) -> None:
    host = server.host(transport, key=str(new_key(tmp_path / "other")))
    with open_transport(cluster(host), Options()) as opened, pytest.raises(TransportError) as raised:
        opened.start(host, Program("pass"), timeout=20)
    assert raised.value.trouble is Trouble.AUTHENTICATION


def test_closing_the_transport_ends_its_agents(server: Sshd, transport: str, tmp_path: Path) -> None:
    host = server.host(transport)
    gone = tmp_path / "gone"
    with open_transport(cluster(host), Options()) as opened:
        agent = opened.start(host, Program(REPEAT + f"open({str(gone)!r}, 'w').close()\n", payload=b"a\n"), timeout=20)
        lines = agent.lines()
        assert next(lines) == b"> a"
    assert list(lines) == []
    wait_until(gone.exists)


# --- many hosts ---


def test_one_dead_host_does_not_hold_up_the_others(server: Sshd, transport: str) -> None:
    good = server.host(transport)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        hung = replace(server.host(transport, port=listener.getsockname()[1]), name="node00")
        hosts = [hung, *(replace(good, name=f"node{i:02}") for i in range(1, 5))]
        with open_transport(cluster(*hosts), Options(connect_timeout=30)) as opened:
            results = fan_out(hosts, lambda h: opened.run(h, Program("pass"), timeout=30), pool=2, deadline=3)
    assert list(results) == ["node00", "node01", "node02", "node03", "node04"]
    dead = results.pop("node00")
    assert isinstance(dead, TransportError)
    assert dead.trouble is Trouble.TIMEOUT
    assert "ssh" in dead.summary
    assert all(isinstance(result, Answer) and result.exit == 0 for result in results.values())


INTERRUPTED = """
import sys, time
from preflight.model.cluster import Cluster, Host, Product, Ssh
from preflight.transport import Options, Program, fan_out, open_transport
user, port, key, known_hosts, kind, mark = sys.argv[1:]
hosts = [
    Host(f"node{i}", "127.0.0.1", Ssh(user=user, port=int(port), key=key, known_hosts=known_hosts, transport=kind))
    for i in range(6)
]
program = Program(f"import time; open({mark!r}, 'a').write('x'); time.sleep(8)")
with open_transport(Cluster("c", Product.CPU, tuple(hosts)), Options()) as opened:
    fan_out(hosts, lambda host: opened.run(host, program, timeout=60), pool=4, deadline=60)
"""


def test_ctrl_c_ends_a_fan_out_within_a_second(server: Sshd, transport: str, tmp_path: Path) -> None:
    mark = tmp_path / "running"
    host = server.host(transport).ssh
    arguments = [str(value) for value in (host.user, host.port, host.key, host.known_hosts, transport, mark)]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *arguments], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        wait_until(lambda: mark.exists() and len(mark.read_text()) == 4)
        interrupted = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=10)
        assert time.monotonic() - interrupted < 1.0
        assert "KeyboardInterrupt" in stderr
        assert "paramiko" not in stderr
    finally:
        process.kill()
        process.wait()


def test_paramiko_keeps_quiet(server: Sshd, capfd: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=hang_up, args=(listener,), daemon=True).start()
        failure(server.host("fabric", port=listener.getsockname()[1]))
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


# --- helpers ---


def fingerprint(public_key: Path) -> str:
    listed = subprocess.run(["ssh-keygen", "-lf", str(public_key)], check=True, capture_output=True, text=True)
    return listed.stdout.split()[1]


def on_record(known_hosts: Path, sshd: Sshd) -> str:
    """What OpenSSH's own reader finds for the server in the file."""
    command = ["ssh-keygen", "-F", sshd.known_as, "-f", str(known_hosts)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def logins(sshd: Sshd) -> int:
    return (sshd.directory / "sshd.log").read_text().count("Accepted publickey")


def hang_up(listener: socket.socket) -> None:
    """Take every connection and end it at once."""
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
