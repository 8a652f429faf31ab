"""The collector's view of what ssh starts against a login: real shells, with a home of the test's own."""

import os
import pwd
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.collector import SOURCE, answer, section, tool

GUARDED = """
export NCCL_DEBUG=WARN
case $- in *i*) ;; *) return ;; esac
export NCCL_DEBUG=INFO LD_LIBRARY_PATH=/opt/x/lib NCCL_TOKEN=hunter2 ELSE=1 PATH={folder}:$PATH
echo 'Welcome!'
"""
WANTED = {"user": "", "prefixes": ["NCCL_", "LD_LIBRARY_PATH"], "programs": ["mpirun", "nonesuch"]}


def looked(
    monkeypatch: pytest.MonkeyPatch, home: Path, shell: str = "/bin/bash", seconds: str = "8.0"
) -> dict[str, Any]:
    """`look_shells` in this process, as if this user had come over ssh and this were the home."""
    me = pwd.getpwuid(os.geteuid())
    account = SimpleNamespace(pw_name=me.pw_name, pw_uid=me.pw_uid, pw_dir=str(home), pw_shell=shell)
    monkeypatch.setenv("SSH_CONNECTION", "10.1.0.9 50000 10.1.0.1 22")
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: account)
    look = section("shells", "shells", lambda text: text.replace("LOGIN_SECONDS = 8.0", f"LOGIN_SECONDS = {seconds}"))
    found: dict[str, Any] = look({"shells": WANTED}, time.monotonic() + 10)
    return found


def test_what_a_guarded_bashrc_sets_is_seen_in_a_login_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    tool(tools, "mpirun", 'echo "mpirun (Open MPI) 4.1.4"; echo more')
    for name, text in ((".bashrc", GUARDED.format(folder=tools)), (".bash_profile", ". ~/.bashrc\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = looked(monkeypatch, tmp_path)
    assert found["error"] == ""
    assert found["over_ssh"]["variables"]["NCCL_DEBUG"] == "WARN"
    assert found["over_ssh"]["programs"] == {"mpirun": "", "nonesuch": ""}
    login = found["login"]
    assert (login["variables"]["NCCL_DEBUG"], login["variables"]["LD_LIBRARY_PATH"]) == ("INFO", "/opt/x/lib")
    assert not {"NCCL_TOKEN", "ELSE"} & set(login["variables"])
    assert login["programs"] == {"mpirun": f"{tools}/mpirun", "nonesuch": ""}
    assert login["mpi"] == "mpirun (Open MPI) 4.1.4"


@pytest.mark.parametrize(
    ("bashrc", "why"),
    [("exit 3\n", "exited with 3 and printed no environment"), ("sleep 60\n", "did not finish in time")],
)
def test_a_login_that_does_not_come_to_its_end_is_told_and_what_ssh_gives_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bashrc: str, why: str
) -> None:
    (tmp_path / ".bash_profile").write_text(bashrc, encoding="utf-8")
    found = looked(monkeypatch, tmp_path, seconds="0.5")
    assert found["login"] is None
    assert why in found["error"]
    assert found["over_ssh"]["variables"]["NCCL_DEBUG"] == "WARN"


def test_a_login_shell_that_takes_other_options_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = looked(monkeypatch, tmp_path, "/usr/sbin/nologin")
    assert (found["login"], found["error"].partition(" is ")[2]) == (None, "/usr/sbin/nologin, which is not supported")


def test_another_user_of_the_jobs_or_another_way_in_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "x")
    assert (
        "jobs run as trainer, but sshd's environment is only known for "
        in (answer("shells", shells={**WANTED, "user": "trainer"})["shells"]["error"])
    )
    monkeypatch.delenv("SSH_CONNECTION")
    assert "preflight did not log in over ssh" in answer("shells", shells=WANTED)["shells"]["error"]


def test_behind_sudo_the_environment_is_the_one_that_sudo_was_started_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The `sudo` here is a script that gives its command an environment of its own; it makes nobody root."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    tool(tmp_path, "python3", f'exec {tmp_path}/sudo "$@"')
    tool(tmp_path, "sudo", f'/usr/bin/env -i SUDO_USER={me} NCCL_DEBUG=ROOT {sys.executable} "$@"; exit $?')
    for name, value in (("SSH_CONNECTION", "x"), ("NCCL_DEBUG", "WARN"), ("SUDO_USER", "")):
        monkeypatch.setenv(name, value)
    as_anybody = SOURCE.replace('os.geteuid() == 0 and "SUDO_USER"', '"SUDO_USER"')
    assert as_anybody != SOURCE
    as_anybody = as_anybody.replace("os.path.basename(account.pw_shell) not in SHELLS", "True")  # nobody's ~/.bashrc
    found = answer("shells", path=str(tmp_path), source=as_anybody, shells=WANTED)["shells"]["value"]
    assert (found["user"], found["over_ssh"]["variables"]["NCCL_DEBUG"]) == (me, "WARN")
