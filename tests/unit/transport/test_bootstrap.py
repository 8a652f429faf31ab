"""From a program to its command line, and from the command line's end to what went wrong. Runs sh, no network."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.transport.bootstrap import Call, command_line, host_argv, source_bytes
from preflight.transport.errors import Target
from preflight.transport.types import ErrorKind, Program

TARGET = Target("node01", "10.1.0.11", 22, "ops")

HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "a\\b\\041",
    "!!",
    "two\nlines",
    "é %s",
]


def shell(program: Program, tmp_path: Path, *, sudo: bool = False) -> subprocess.CompletedProcess[bytes]:
    """What sshd does with the command line."""
    command = ["sh", "-c", command_line(program, sudo=sudo)]
    data = source_bytes(program) + program.payload
    return subprocess.run(command, input=data, capture_output=True, cwd=tmp_path, timeout=20, check=False)


def test_the_source_runs_as_main_and_finds_the_payload_on_stdin(tmp_path: Path) -> None:
    program = Program(
        "import sys; print(__name__, sys.stdin.buffer.read())", payload=b"\x00rest", python=sys.executable
    )
    assert shell(program, tmp_path).stdout == b"__main__ b'\\x00rest'\n"


def test_a_source_of_several_bytes_a_letter_is_counted_in_bytes(tmp_path: Path) -> None:
    program = Program("# ééé\nimport sys; sys.stdout.buffer.write('ü'.encode())", python=sys.executable)
    assert shell(program, tmp_path).stdout.decode() == "ü"


def test_a_source_cut_short_does_not_run_as_far_as_it_came(tmp_path: Path) -> None:
    program = Program("open('ran', 'w').close()\npass\n", python=sys.executable)
    command = ["sh", "-c", command_line(program, sudo=False)]
    cut = subprocess.run(command, input=source_bytes(program)[:-5], capture_output=True, cwd=tmp_path, check=False)
    assert cut.returncode == 70
    assert not (tmp_path / "ran").exists()


def test_the_source_is_no_part_of_the_command_line() -> None:
    assert "secret" not in command_line(Program("token = 'secret'"), sudo=True)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_a_wrapper_is_read_by_a_shell(text: str, tmp_path: Path) -> None:
    program = Program(
        "import os; print(os.environ['VALUE'], end='')", wrapper=("env", f"VALUE={text}"), python=sys.executable
    )
    assert shell(program, tmp_path).stdout.decode() == text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_a_setup_line_is_read_by_one_shell_only(text: str, tmp_path: Path) -> None:
    program = Program(
        "import os; print(os.environ['VALUE'], end='')",
        setup=f"export VALUE={shlex.quote(text)}",
        python=sys.executable,
    )
    assert shell(program, tmp_path).stdout.decode() == text
    assert list(tmp_path.iterdir()) == []


def test_a_setup_line_may_source_a_file_and_fail_and_ends_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "set_env.sh").write_text("export VALUE=set\n")
    program = Program(
        "import os; print(os.environ['VALUE'])", setup="source ./set_env.sh; false # }", python=sys.executable
    )
    assert shell(program, tmp_path).stdout == b"set\n"


def test_modules_in_the_working_directory_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "json.py").write_text("raise SystemExit('wrong one')")
    for isolated in (True, False):
        program = Program("import json; print('right one')", isolated=isolated, python=sys.executable)
        assert shell(program, tmp_path).stdout == b"right one\n"


def test_the_users_environment_counts_only_where_it_is_asked_for() -> None:
    assert "-I" in host_argv(Program("pass"), sudo=False)
    assert "-I" not in host_argv(Program("pass", isolated=False), sudo=False)


def test_the_order_is_sudo_then_wrapper_then_setup_then_python() -> None:
    argv = host_argv(Program("pass", setup="source env.sh", wrapper=("docker", "exec", "-i", "job")), sudo=True)
    positions = [argv.index(word) for word in ("docker", "source env.sh", "python3")]
    assert positions == sorted(positions)
    assert "sudo -n" in " ".join(argv[: positions[0]])


def test_a_programs_own_user_wins_over_root() -> None:
    argv = host_argv(Program("pass", user="trainer"), sudo=True)
    assert "trainer" in argv
    assert '[ "$(id -un)" = "$user" ]' in argv[2]


def test_root_needs_no_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.geteuid() == 0, "this test needs root"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "sudo").write_text("#!/bin/sh\nexit 99\n")
    (tmp_path / "sudo").chmod(0o755)
    assert shell(Program("pass", python=sys.executable), tmp_path, sudo=True).returncode == 0
    assert shell(Program("pass", python=sys.executable, user="nobody"), tmp_path).returncode == 99


def judge(program: Program, status: int, stderr: bytes, *, sudo: bool = False, stdout: bytes = b"") -> ErrorKind | None:
    error = Call(TARGET, program, sudo=sudo, password=None).error(status, stdout, stderr)
    return error.kind if error else None


@pytest.mark.parametrize(
    ("status", "stderr"),
    [
        (127, b"sh: 1: exec: python3: not found\n"),
        (127, b"bash: line 1: exec: python3: not found\n"),
        (126, b"sh: 1: exec: /opt/python3: Permission denied\n"),
        (127, b'OCI runtime exec failed: exec: "python3": executable file not found in $PATH\n'),
        (127, b""),
    ],
)
def test_python_that_is_not_there_is_recognised(status: int, stderr: bytes) -> None:
    assert judge(Program("pass"), status, stderr) is ErrorKind.NO_PYTHON


@pytest.mark.parametrize(
    ("status", "stderr"),
    [
        (1, b"sudo: a password is required\n"),
        (1, b"sudo: no tty present and no askpass program specified\n"),
        (1, b"sudo: sorry, you must have a tty to run sudo\n"),
        (1, b"ops is not in the sudoers file.\n"),
        (1, b"Sorry, user ops is not allowed to execute '/usr/bin/python3' as root on node01.\n"),
        (1, "sudo: 需要密码\n".encode()),
        (127, b"preflight: 1: exec: sudo: not found\n"),
        (127, b"bash: line 1: sudo: command not found\n"),
    ],
)
def test_sudos_refusals_are_recognised(status: int, stderr: bytes) -> None:
    assert judge(Program("pass"), status, stderr, sudo=True) is ErrorKind.SUDO
    assert judge(Program("pass", user="trainer"), status, stderr) is ErrorKind.SUDO


def test_python_that_sudo_cannot_find_is_not_sudos_refusal() -> None:
    assert judge(Program("pass"), 1, b"sudo: python3: command not found\n", sudo=True) is ErrorKind.NO_PYTHON


def test_a_program_that_ran_and_failed_is_left_to_its_caller() -> None:
    assert judge(Program("pass"), 1, b"Traceback (most recent call last):\n", sudo=True) is None
    assert (
        judge(Program("pass"), 1, b"sudo: unable to resolve host node01: Name or service not known\n", sudo=True)
        is None
    )
    assert judge(Program("pass"), 1, b"sudo: said the program itself\n", sudo=True, stdout=b"{}") is None
    assert judge(Program("pass"), 1, b"sudo: said the program itself\n") is None
    assert judge(Program("pass"), 0, b"sudo: not found\n", sudo=True) is None
