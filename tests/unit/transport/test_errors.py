"""What is said about a host that cannot be reached, and what a host may not slip into it."""

import subprocess
import sys

import pytest

from preflight.model.text import last_line
from preflight.transport import errors
from preflight.transport.errors import Target
from preflight.transport.streams import Tail, split_lines
from preflight.transport.types import ErrorKind, Program, TransportError

TARGET = Target("node01", "10.1.0.11", 2222, "ops")
CAUSE = errors.refused(Target("bastion jump", "jump", 22), "Connection refused")

EVERY = [
    errors.unresolved(TARGET, "Name or service not known"),
    errors.refused(TARGET, "Connection refused"),
    errors.hung_up(TARGET, "Connection reset by peer"),
    errors.timed_out(TARGET, 10, "the TCP connection"),
    errors.key_unknown(TARGET, "ssh-ed25519", "SHA256:abc", ("/root/.ssh/known_hosts",)),
    errors.key_changed(TARGET, "ssh-ed25519", "SHA256:abc", "ssh-ed25519 SHA256:def", "/root/.ssh/known_hosts:7"),
    errors.key_revoked(TARGET, "SHA256:abc", "/root/.ssh/known_hosts:7"),
    errors.not_let_in(TARGET, "it accepts none of /root/.ssh/id_ed25519"),
    errors.no_python(TARGET, Program(""), b"sh: 1: exec: python3: not found\n"),
    errors.sudo_refused(TARGET, "root", b"sudo: a password is required\n"),
    errors.sudo_forbids(TARGET, "root", b"ops is not in the sudoers file.\n"),
    errors.sudo_wants_terminal(TARGET),
    errors.sudo_missing(TARGET),
    errors.sudo_password_refused(TARGET, b"Sorry, try again.\n"),
    errors.sudo_password_not_sent(TARGET, "node09"),
    errors.sudo_wants_second_factor(TARGET, "root"),
    errors.closed(TARGET, "Connection reset by peer"),
    errors.bastion_failed(TARGET, CAUSE),
    errors.bastion_forbids(TARGET, "open failed"),
    errors.proxy_command(TARGET),
    errors.too_many_bastions(TARGET, 8),
    errors.abandoned("node01", 30, "the program"),
    errors.budget_ended("node01", "the program"),
]


def test_every_way_of_failing_has_a_sentence_here() -> None:
    assert {error.kind for error in EVERY} == set(ErrorKind)


@pytest.mark.parametrize("error", EVERY, ids=lambda error: error.summary[:40])
def test_every_sentence_names_the_host_first_and_has_a_remedy_on_one_line(error: TransportError) -> None:
    assert error.summary.startswith("node01: ")
    assert error.remedy
    assert "\n" not in error.summary + error.remedy + " ".join(error.commands)
    assert str(error) == error.summary


def test_commands_have_every_word_quoted() -> None:
    place = Target("node01", "10.1.0.11; reboot", 2222, "ops")
    assert "ssh -v -p 2222 'ops@10.1.0.11; reboot'" in errors.timed_out(place, 1, "x").commands[0]
    changed = errors.key_changed(TARGET, "t", "f", "k", "/home/a b/known_hosts:3")
    assert "ssh-keygen -R '[10.1.0.11]:2222' -f '/home/a b/known_hosts'" in changed.commands


@pytest.mark.parametrize(
    ("place", "where"),
    [
        (TARGET, "10.1.0.11:2222"),
        (Target("n", "fd00::1", 22), "[fd00::1]:22"),
        (Target("n", "node01"), "node01"),
        (Target("n", "node01", 22, via="jump"), "node01:22 (through jump)"),
    ],
)
def test_a_target_is_written_as_people_write_it(place: Target, where: str) -> None:
    assert place.where == where


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"first\nlast\n\n", "last"),
        (b"\x1b[2J\x1b]0;title\x07evil\r", "[2J ]0;title evil"),
        (b"\xff\xfe broken", "\ufffd\ufffd broken"),
        (b"", ""),
        (b"x" * 500, "x" * 199 + "…"),
        ("right\u202eleft".encode(), "right left"),
    ],
)
def test_text_of_a_host_is_shown_on_one_line_without_control_characters(said: bytes, shown: str) -> None:
    assert last_line(said) == shown


def test_lines_are_put_together_from_chunks_and_cut_when_too_long() -> None:
    assert list(split_lines([b"a\nb", b"c\n", b"\n", b"last"])) == [b"a", b"bc", b"", b"last"]
    assert list(split_lines([b"12345", b"6789\nab\n", b"0" * 9], longest=4)) == [b"1234", b"ab", b"0000"]
    assert list(split_lines([])) == []


def test_a_tail_keeps_the_end() -> None:
    tail = Tail(4)
    for data in (b"ab", b"cdef", b"g"):
        tail.add(data)
    assert bytes(tail) == b"defg"


def test_importing_the_package_loads_neither_paramiko_nor_fabric() -> None:
    code = "import sys, preflight.transport; print({'paramiko', 'fabric', 'invoke', 'cryptography'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "set()\n"
