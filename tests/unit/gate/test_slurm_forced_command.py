"""The command of the controller's key: it lets the probe in, as this release runs it, and nothing else."""

import json
import os
import signal
from hashlib import sha256
from pathlib import Path

import pytest
from gate import ssh

from preflight.cli.main import main
from preflight.gate.forced_command import allowed, authorized_key
from preflight.model.cluster import Cluster, Host, ProbeSettings, Product, Ssh
from preflight.model.errors import UsageError
from preflight.probe.rehearsal import RehearsalRequest, rehearse
from preflight.probe.request import Request
from preflight.probe.run import probe
from preflight.transport.bootstrap import RUN, command_line, source_bytes, without_run
from preflight.transport.types import Channel, ErrorKind, Program, TransportError

HOSTS = (Host("node1", "10.0.0.1"), Host("node2", "10.0.0.2", Ssh(user="ops", sudo=True)))
SETTINGS = {
    "plain": ProbeSettings(),
    "in a container": ProbeSettings(
        python="python3.9", setup="source /x/env.sh!", wrapper=("docker", "exec", "-i", "x")
    ),
    "as another user": ProbeSettings(user="train"),
}


class Recorder:
    """A way to hosts that starts nothing, and keeps what was to be started."""

    def __init__(self) -> None:
        self.started: list[tuple[Host, Program]] = []

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        self.started.append((host, program))
        raise TransportError(ErrorKind.REFUSED, f"{timeout}", "")


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_all_that_a_probe_starts_is_listed_and_nothing_else(settings: ProbeSettings) -> None:
    cluster = Cluster("c", Product.CPU, HOSTS, probe=settings)
    way = Recorder()
    rehearse(RehearsalRequest(cluster, HOSTS, cluster.probe.backend), way)  # type: ignore[arg-type]  # no more of a transport is used
    probe(cluster, HOSTS, way, Request("gloo", (8,), quick=True))
    assert len(way.started) == 4
    for host in HOSTS:
        listed = json.loads(allowed(cluster, host))["programs"]
        mine = [program for name, program in way.started if name == host]
        assert {one["command"] for one in listed} == {
            without_run(command_line(one, sudo=host.ssh.sudo)) for one in mine
        }
        assert not any(RUN in one["command"] for one in listed)
        assert {one["length"] for one in listed} == {len(source_bytes(program)) for program in mine}


COMMAND, TEXT = "exec sh -c 'python3 …'", b"print(1)\n"


@pytest.fixture
def listed() -> list[tuple[str, int, str]]:
    return [(COMMAND, len(TEXT), sha256(TEXT).hexdigest())]


def sent(data: bytes) -> int:
    """A descriptor on which this comes, and then its end."""
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    return reader


def test_a_listed_program_is_read_and_not_a_byte_more(listed: list[tuple[str, int, str]]) -> None:
    stdin = sent(TEXT + b'{"nonce": 1}\n')
    assert ssh.program(listed, COMMAND, stdin) == TEXT
    assert os.read(stdin, 100) == b'{"nonce": 1}\n'


def copied(data: bytes) -> bytes:
    """What the program reads."""
    reader, writer = os.pipe()
    try:
        ssh.copy(TEXT, sent(data), writer)
    finally:
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            read = file.read()
    return read


@pytest.mark.parametrize("hello", ['{"nonce": "a"}', '{"restricted": false, "nonce": "a", "restricted": 0}'])
def test_the_hello_says_that_the_run_is_restricted_and_all_else_is_passed_on(hello: str) -> None:
    text, line, rest = copied(hello.encode() + b'\n{"restricted": false}\n\n\xff').split(b"\n", 2)
    assert text + b"\n" == TEXT
    assert json.loads(line) == {"nonce": "a", "restricted": True}
    assert rest == b'{"restricted": false}\n\n\xff'


def test_a_hello_may_come_in_pieces() -> None:
    reader, writer = os.pipe()
    if os.fork() == 0:
        for letter in b'{"nonce": "\xc3\xa4"}\nrest':
            os.write(writer, bytes([letter]))
        os._exit(0)
    os.close(writer)
    back, to = os.pipe()
    ssh.copy(TEXT, reader, to)
    assert os.read(back, 1000) == TEXT + b'{"nonce": "\\u00e4", "restricted": true}\nrest'


@pytest.mark.parametrize("hello", [b"\n", b"7\n", b'["nonce"]\n', b"{\n", b"\xff\n", b'"restricted"\n', b"null\n{}\n"])
def test_a_hello_that_is_none_is_not_passed_on(hello: bytes) -> None:
    reader, writer = os.pipe()
    with pytest.raises((ValueError, TypeError)):
        ssh.copy(TEXT, sent(hello + b"{}\n"), writer)
    assert os.read(reader, 1000) == TEXT


def test_a_hello_that_does_not_end_is_not_passed_on() -> None:
    assert copied(b'{"nonce": "a"}') == TEXT


REFUSED = {
    "no command: a login": ("", TEXT, "only allows preflight's probe"),
    "another command": ("id", TEXT, "only allows preflight's probe"),
    "more behind it": (COMMAND + "; id", TEXT, "only allows preflight's probe"),
    "a blank more": (COMMAND + " ", TEXT, "only allows preflight's probe"),
    "another text of the same length": (COMMAND, TEXT.replace(b"1", b"2"), "differs from the one that was installed"),
    "a text that is cut short": (COMMAND, TEXT[:-1], "the program is incomplete"),
    "nothing": (COMMAND, b"", "the program is incomplete"),
}


@pytest.mark.parametrize(("command", "data", "why"), REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused(listed: list[tuple[str, int, str]], command: str, data: bytes, why: str) -> None:
    with pytest.raises(ssh.RefusedError, match=why):
        ssh.program(listed, command, sent(data))


def test_a_program_that_does_not_come_is_not_waited_for(listed: list[tuple[str, int, str]]) -> None:
    """The alarm ends the process: here, only that it is set and taken back."""
    ssh.program(listed, COMMAND, sent(TEXT))
    assert signal.alarm(0) == 0


FILES = {
    None: "does not exist",
    "{": "not valid JSON",
    "[]": "not a JSON object",
    "{}": "was not written by preflight gate install",
    '{"programs": [{"command": "x"}]}': "was not written by preflight gate install",
    '{"programs": 7}': "was not written by preflight gate install",
}


@pytest.mark.parametrize(("text", "why"), FILES.items())
def test_a_list_that_is_damaged_lets_nobody_in(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "gate-ssh.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ssh.RefusedError, match=why):
        ssh.allowed(str(path), os.getuid())


def test_a_list_that_others_can_write_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "gate-ssh.json"
    path.write_text(allowed(Cluster("c", Product.CPU, HOSTS), HOSTS[0]))
    assert len(ssh.allowed(str(path), os.getuid())) == 2
    path.chmod(0o666)
    with pytest.raises(ssh.RefusedError, match="users other than root can write"):
        ssh.allowed(str(path), os.getuid())


def test_ranks_that_meet_in_a_file_are_not_for_the_key() -> None:
    cluster = Cluster("c", Product.CPU, HOSTS, probe=ProbeSettings(init="file", shared_dir="/shared"))
    with pytest.raises(UsageError, match='init = "file"'):
        allowed(cluster, HOSTS[0])


def test_the_line_of_authorized_keys() -> None:
    assert authorized_key("ssh-ed25519 AAAA slurm@head\n") == (
        'restrict,command="/usr/local/sbin/preflight-gate --ssh" ssh-ed25519 AAAA slurm@head'
    )


@pytest.mark.parametrize("text", ["", "AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----\nx", 'command="x" ssh-ed25519 AAAA'])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a public key"):
        authorized_key(text)


INVENTORY = '[cluster]\nname = "c"\nproduct = "cpu"\n[[hosts]]\nname = "node[1-2]"\naddress = "10.0.0.[1-2]"\n'


def test_what_lets_the_key_in_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.toml").write_text(INVENTORY)
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA slurm@head\n")
    words = ["gate", "controller", "-i", str(tmp_path / "hosts.toml"), "--key", str(tmp_path / "key")]
    assert main([*words, "--authorize", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out/authorized_keys").read_text().startswith("restrict,command=")
    assert len(ssh.allowed(str(tmp_path / "out/node2/gate-ssh.json"), os.getuid())) == 2
    (tmp_path / "key.pub").write_text("no key\n")
    assert main([*words, "--authorize", str(tmp_path / "out")]) == 2
    (tmp_path / "key.pub").unlink()
    assert main([*words, "--authorize", str(tmp_path / "out")]) == 2
    assert main([*words[:4], "--authorize", str(tmp_path / "out")]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("nodes", ["node[1-", "", "node[1-99999999]"])
def test_a_list_of_nodes_that_is_none_ends_with_2(tmp_path: Path, nodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    monkeypatch.delenv("SLURM_NODELIST", raising=False)
    (tmp_path / "hosts.toml").write_text(INVENTORY)
    assert main(["gate", "controller", "-i", str(tmp_path / "hosts.toml"), "--nodes", nodes]) == 2


def test_nodes_that_nobody_knows_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.toml").write_text(INVENTORY)
    assert main(["gate", "controller", "-i", str(tmp_path / "hosts.toml"), "--nodes", "gpu[1-2]"]) == 3
    assert json.loads(capsys.readouterr().out)["sentence"] == "not in the inventory: gpu1, gpu2"


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_later_run_with_another_name_is_let_in(settings: ProbeSettings) -> None:
    cluster = Cluster("c", Product.CPU, HOSTS, probe=settings)
    way = Recorder()
    rehearse(RehearsalRequest(cluster, HOSTS, cluster.probe.backend), way)  # type: ignore[arg-type]  # no more of a transport is used
    for host, program in way.started:
        later = command_line(program, sudo=host.ssh.sudo).replace(RUN, "0123abcd")
        listed = {entry["command"] for entry in json.loads(allowed(cluster, host))["programs"]}
        assert ssh.RUN.sub("preflight", later, count=1) in listed
