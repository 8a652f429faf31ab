"""The transports against a real sshd: programs and agents on one host and on many.

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
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.model.cluster import Host
from preflight.transport import (
    Answer,
    ErrorKind,
    FanOutLimits,
    Options,
    Program,
    TransportError,
    fan_out,
    open_transport,
)
from tests.lab.sshd import Sshd, new_key, running
from tests.lab.ways_in import ECHO, cluster, local_host, logins, run, wait_until

pytestmark = pytest.mark.lab


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


# Agents.


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
        assert agent.error() is None
        wait_until(gone.exists)  # the program saw the end of its stdin
        with pytest.raises(TransportError) as raised:
            agent.send(b"too late\n")
        assert raised.value.kind is ErrorKind.CLOSED
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
        error = agent.error()
    assert error
    assert error.kind is ErrorKind.NO_PYTHON


def test_an_agent_on_a_host_that_does_not_let_us_in(server: Sshd, tmp_path: Path, transport: str) -> None:
    host = server.host(transport, key=str(new_key(tmp_path / "other")))
    with open_transport(cluster(host), Options()) as opened, pytest.raises(TransportError) as raised:
        opened.start(host, Program("pass"), timeout=20)
    assert raised.value.kind is ErrorKind.AUTHENTICATION


def test_closing_the_transport_ends_its_agents(server: Sshd, transport: str, tmp_path: Path) -> None:
    host = server.host(transport)
    gone = tmp_path / "gone"
    with open_transport(cluster(host), Options()) as opened:
        agent = opened.start(host, Program(REPEAT + f"open({str(gone)!r}, 'w').close()\n", payload=b"a\n"), timeout=20)
        lines = agent.lines()
        assert next(lines) == b"> a"
    assert list(lines) == []
    wait_until(gone.exists)


# Parked connections.

CLIENT = Program("import os; print(os.environ['SSH_CONNECTION'].split()[1])")  # the port of this connection


def test_a_parked_connection_runs_the_next_program_and_others_log_in_anew(server: Sshd) -> None:
    host = server.host("fabric")
    with open_transport(cluster(host), Options(parked=1)) as opened:
        first, second = (opened.run(host, CLIENT, timeout=20).stdout for _ in range(2))
        with contextlib.closing(opened.start(host, CLIENT, timeout=20)) as agent:
            third = next(agent.lines()) + b"\n"
    assert first == second == third
    with open_transport(cluster(host), Options()) as opened:
        assert len({opened.run(host, CLIENT, timeout=20).stdout for _ in range(2)}) == 2


def test_a_connection_with_a_program_that_still_runs_is_not_parked(server: Sshd) -> None:
    host, endless = server.host("fabric"), "import sys\nwhile True: sys.stdout.write('x' * 4096)"
    with open_transport(cluster(host), Options(parked=1)) as opened:
        assert opened.run(host, Program(endless), timeout=20, limit=10_000).truncated
        before = logins(server)
        assert opened.run(host, Program("print(1)"), timeout=20).stdout == b"1\n"
    assert logins(server) == before + 1


def test_a_parked_connection_that_the_server_closed_is_not_used(server: Sshd) -> None:
    host = server.host("fabric")
    parent = Program("import os; print(os.getppid())")  # sshd's process of this connection
    with open_transport(cluster(host), Options(parked=1)) as opened:
        os.kill(int(opened.run(host, parent, timeout=20).stdout), signal.SIGTERM)
        time.sleep(0.5)
        assert opened.run(host, Program("print(1)"), timeout=20).stdout == b"1\n"


# Many hosts.


def test_one_dead_host_does_not_hold_up_the_others(server: Sshd, transport: str) -> None:
    good = server.host(transport)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        hung = replace(server.host(transport, port=listener.getsockname()[1]), name="node00")
        hosts = [hung, *(replace(good, name=f"node{i:02}") for i in range(1, 5))]
        with open_transport(cluster(*hosts), Options(connect_timeout=30)) as opened:
            results = fan_out(hosts, lambda h: opened.run(h, Program("pass"), timeout=30), FanOutLimits(2, 3))
    assert list(results) == ["node00", "node01", "node02", "node03", "node04"]
    dead = results.pop("node00")
    assert isinstance(dead, TransportError)
    assert dead.kind is ErrorKind.TIMEOUT
    assert "ssh" in dead.summary
    assert all(isinstance(result, Answer) and result.exit == 0 for result in results.values())


INTERRUPTED = """
import sys, time
from preflight.model.cluster import Cluster, Host, Product, Ssh
from preflight.transport import FanOutLimits, Options, Program, fan_out, open_transport
user, port, key, known_hosts, kind, mark = sys.argv[1:]
hosts = [
    Host(f"node{i}", "127.0.0.1", Ssh(user=user, port=int(port), key=key, known_hosts=known_hosts, transport=kind))
    for i in range(6)
]
program = Program(f"import time; open({mark!r}, 'a').write('x'); time.sleep(8)")
with open_transport(Cluster("c", Product.CPU, tuple(hosts)), Options()) as opened:
    fan_out(hosts, lambda host: opened.run(host, program, timeout=60), FanOutLimits(4, 60))
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
