"""The conversation with sudo, and to whom a password is sent. No sudo, no network: what a host prints is given."""

import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from preflight.transport import ErrorKind, Options, Program, TransportError
from preflight.transport.bootstrap import command_line
from preflight.transport.errors import Target
from preflight.transport.password import NotSentError, Password
from preflight.transport.streams import Chunk
from preflight.transport.sudo import SudoDialogue

SECRET = "correct horse"
TARGET = Target("node01", "10.1.0.11", 22, "ops")
LECTURE = b"We trust you have received the usual lecture\n"


@dataclass
class Sudo:
    """A host that prints `script`: bytes for stderr, str for stdout; "PROMPT" and "READY" stand for the marks.

    After a prompt nothing more comes until something is sent, as from the real one.
    """

    dialogue: SudoDialogue
    script: list[bytes | str]
    sent: list[bytes] = field(default_factory=list)
    seen_before_sending: list[bytes] = field(default_factory=list)

    def chunks(self, size: int = 1 << 20) -> Iterator[Chunk]:
        marks = {b"PROMPT": self.dialogue.marks.prompt.encode(), b"READY": self.dialogue.marks.ready.encode() + b"\n"}
        for line in self.script:
            asks = line == b"PROMPT"
            waiting = len(self.sent)
            if isinstance(line, str):
                yield False, line.encode()
                continue
            data = marks.get(line, line)
            for start in range(0, len(data), size):
                assert len(self.sent) == waiting, "sent before all of the prompt was there"
                yield True, data[start : start + size]
            assert not asks or len(self.sent) == waiting + 1

    def run(self, size: int = 1 << 20) -> tuple[Chunk, ...]:
        return self.dialogue.become(self.chunks(size), self.sent.append, time.monotonic() + 5)


def sudo(*script: bytes | str, password: Password | None = None, host: str = "node01") -> Sudo:
    return Sudo(SudoDialogue(Target(host, "10.1.0.11", 22, "ops"), "root", password or Password(SECRET)), list(script))


LINE = SECRET.encode() + b"\n"


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_the_password_is_sent_once_after_the_whole_prompt(size: int) -> None:
    host = sudo("Welcome\n", LECTURE, b"PROMPT", b"setup says\n", b"READY")
    assert host.run(size) == ((False, b"Welcome\n"), (True, LECTURE + b"setup says\n"))
    assert host.sent == [LINE]
    assert host.dialogue.python_ready


def test_without_a_prompt_nothing_is_sent() -> None:
    host = sudo(b"Password: [sudo] password for ops: ", b"READY")
    host.run()
    assert host.sent == []
    assert host.dialogue.python_ready


ECHOES: dict[str, Callable[[str], str]] = {
    "set -x": lambda command: f"+ {command}\n",
    "echo of dash": lambda command: command.replace("\\n", "\n") + "\n",
    "quotes taken off": lambda command: " ".join(shlex.split(command)) + "\n",
    "printf's octal numbers undone": lambda command: re.sub(r"\\(\d{3})", lambda o: chr(int(o[1], 8)), command) + "\n",
}


@pytest.mark.parametrize("python", ["python3", "/opt/python!/bin/python3"])
@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_a_shell_that_shows_the_command_line_is_taken_for_neither_sudo_nor_python(
    echo: Callable[[str], str], python: str
) -> None:
    """An exclamation mark makes the command line one of octal numbers."""
    host = sudo()
    shown = echo(command_line(Program("pass", python=python), sudo=True, marks=host.dialogue.marks)).encode()
    host.script = [shown]
    host.run()
    assert host.sent == []
    assert not host.dialogue.python_ready
    host.script = [shown, b"PROMPT", b"READY"]
    host.run()
    assert host.sent == [LINE]
    assert host.dialogue.python_ready


def test_a_second_prompt_is_never_answered() -> None:
    host = sudo(b"PROMPT", b"Sorry, try again.\n", b"PROMPT", b"READY")
    with pytest.raises(TransportError) as raised:
        host.run()
    assert raised.value.kind is ErrorKind.SUDO
    assert "Sorry, try again." in raised.value.summary
    assert host.sent == [LINE]
    assert not host.dialogue.python_ready


def test_a_second_prompt_without_a_message_is_for_a_second_factor() -> None:
    with pytest.raises(TransportError, match="more than a password"):
        sudo(b"PROMPT", b"\n", b"PROMPT").run()


def test_a_host_that_ends_before_python_is_ready_is_not_sent_the_source() -> None:
    host = sudo(b"sudo: sorry, you must have a tty to run sudo\n")
    assert host.run()[1] == (True, b"sudo: sorry, you must have a tty to run sudo\n")
    assert not host.dialogue.python_ready
    assert host.sent == []


def test_every_run_has_its_own_marks() -> None:
    assert sudo().dialogue.marks != sudo().dialogue.marks


def test_a_flood_before_the_prompt_is_kept_within_bounds() -> None:
    flood = b"x" * (1 << 20)
    host = sudo(flood.decode(), flood, b"PROMPT", b"READY")
    assert sum(len(data) for _, data in host.run()) < 1 << 18
    assert host.sent == [LINE]


# --- to whom it is sent ---


def refused_on_node01() -> Password:
    password = Password(SECRET)
    with pytest.raises(TransportError):
        sudo(b"PROMPT", b"Sorry, try again.\n", b"PROMPT", password=password).run()
    return password


def test_after_a_refusal_no_host_gets_the_password() -> None:
    password = refused_on_node01()
    for name, where in (("node02", "on node01"), ("node01", "refused before")):
        other = sudo(b"PROMPT", b"READY", password=password, host=name)
        with pytest.raises(TransportError, match=where) as raised:
            other.run()
        assert raised.value.kind is ErrorKind.SUDO
        assert other.sent == []


def test_a_host_that_accepted_the_password_gets_it_after_a_refusal_elsewhere() -> None:
    password = Password(SECRET)
    sudo(b"PROMPT", b"READY", password=password, host="node02").run()
    with pytest.raises(TransportError):
        sudo(b"PROMPT", b"Sorry\n", b"PROMPT", password=password, host="node01").run()
    again = sudo(b"PROMPT", b"READY", password=password, host="node02")
    again.run()
    assert again.sent == [LINE]


ENDS = {
    b"sudo: 1 incorrect password attempt\n": False,
    b"sudo: account validation failure, is your account locked?\n": False,
    "sudo: 1 次错误密码尝试\n".encode(): False,
    b"ops is not in the sudoers file.\n": True,
    b"Sorry, user ops is not allowed to execute '/usr/bin/python3' as root on node01.\n": True,
    b"sudo: python3: command not found\n": True,
    b"": None,
}


@pytest.mark.parametrize(("said", "took"), ENDS.items())
def test_the_last_message_of_sudo_decides_if_other_hosts_get_the_password(said: bytes, took: bool | None) -> None:
    password = Password(SECRET)
    sudo(b"PROMPT", said, password=password).run()
    other = sudo(b"PROMPT", b"READY", password=password, host="node02")
    if took is False:
        with pytest.raises(TransportError, match="refused on node01"):
            other.run()
    else:
        other.run()
        assert other.sent == [LINE]


def test_the_first_host_tries_the_password_alone() -> None:
    password = Password(SECRET)
    deadline = time.monotonic() + 5
    trying, together = [], threading.Barrier(3)

    def other(name: str) -> None:
        with password.trial(name, deadline) as trial:
            trying.append(name)
            together.wait(5)  # all three hold it at the same time
            trial.accepted = True

    threads = [threading.Thread(target=other, args=(f"node{number:02}",)) for number in (2, 3)]
    with password.trial("node01", deadline) as first:
        for thread in threads:
            thread.start()
        with pytest.raises(TimeoutError), password.trial("node04", time.monotonic() + 0.1):
            pass
        assert trying == []
        first.accepted = True
    with password.trial("node05", deadline):
        together.wait(5)
    for thread in threads:
        thread.join(5)
    assert sorted(trying) == ["node02", "node03"]


def test_hosts_that_waited_for_a_wrong_password_get_an_error() -> None:
    password = Password(SECRET)
    outcome: list[str] = []

    def other() -> None:
        try:
            with password.trial("node02", time.monotonic() + 5):
                outcome.append("sent")
        except NotSentError as error:
            outcome.append(f"refused on {error.by}")

    thread = threading.Thread(target=other)
    with password.trial("node01", time.monotonic() + 5) as first:
        thread.start()
        first.accepted = False
    thread.join(5)
    assert outcome == ["refused on node01"]


def test_a_first_host_that_breaks_off_leaves_the_trial_to_the_next() -> None:
    password = Password(SECRET)
    with pytest.raises(EOFError), password.trial("node01", 0):
        raise EOFError
    with password.trial("node02", 0) as trial:
        assert trial.line == LINE


def test_the_password_is_in_no_repr() -> None:
    password = Password(SECRET)
    talk = SudoDialogue(TARGET, "root", password)
    with password.trial("node01", 0) as trial:
        shown = [password, Options(sudo_password=password), talk, trial, talk.marks, NotSentError("node01")]
        assert not [one for one in shown if SECRET in repr(one) + str(one)]
