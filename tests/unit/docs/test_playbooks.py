"""The scripts of playbooks/: as docs/playbooks.md shows them, and what they do when one of their commands fails.

`preflight` and `ssh` are stand-ins here; tests/lab/test_playbooks.py runs the scripts for real.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "playbooks.md").read_text()
SCRIPTS = {path.stem: path.read_text() for path in (ROOT / "playbooks").glob("*.sh") if path.stem != "demo"}
SERVERS = {"mindspore-rank-table": "node01 node02", "atlas-direct-fibre": "node01 node02"}
# Writes its arguments down; the call number STOP_AT ends with 3; `launch` writes a script a server, the last one of
# which ends with JOB.
PREFLIGHT = """#!/bin/sh
printf '%s|' "$@" >> calls
echo >> calls
[ "$(wc -l < calls)" = "$STOP_AT" ] && exit 3
case "$*" in *"-o scripts"*)
    mkdir start
    for host in $SERVERS; do echo "echo ran on $host" > start/$host.sh; done
    echo "exit $JOB" >> start/$host.sh ;;
esac
exit 0
"""
SSH = """#!/bin/sh
shift
exec "$@"
"""


def run(folder: Path, name: str, *program: str, stop_at: int = 0, job: int = 0) -> "subprocess.CompletedProcess[str]":
    (folder / "bin").mkdir()
    for command, text in (("preflight", PREFLIGHT), ("ssh", SSH)):
        (folder / "bin" / command).write_text(text)
        (folder / "bin" / command).chmod(0o755)
    for file in ("calls", "jobs.toml"):
        (folder / file).touch()
    told = {"STOP_AT": str(stop_at), "JOB": str(job), "SERVERS": SERVERS.get(name, "node01")}
    environment = {**os.environ, **told, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    argv = ["bash", str(ROOT / "playbooks" / f"{name}.sh"), *program]
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_the_page_shows_every_script_as_it_is_and_names_test_and_guide() -> None:
    shown = dict(re.findall(r"^## (\S+)\.sh\n.*?^```bash\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
    assert shown == SCRIPTS
    for name, text in SCRIPTS.items():
        assert len(text.splitlines()) < 40
        (row,) = re.findall(rf"^\|.*\(\.\./playbooks/{name}\.sh\).*$", PAGE, re.MULTILINE)
        assert f"`-k {name}`" in row
        for guide in re.findall(r"guides/(\S+\.md)", row):
            assert f"playbooks.md#{name}sh" in (ROOT / "docs" / "guides" / guide).read_text()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_ends_where_a_command_fails_with_its_exit_code(tmp_path: Path, name: str) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    done = run(whole, name, "train.py", "--epochs", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("PASS: ")
    assert len(calls(whole)) >= 3
    for number in range(1, len(calls(whole)) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        stopped = run(folder, name, "train.py", "--epochs", "3", stop_at=number)
        assert stopped.returncode == 3
        assert calls(folder) == calls(whole)[:number]
        assert stopped.stderr.startswith("STOPPED with exit code 3: preflight ")
        assert "PASS" not in stopped.stdout and "ran on" not in stopped.stdout


@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - {"every-collective"}))
def test_the_job_has_its_arguments_runs_on_all_servers_and_gives_its_exit_code(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, name, "train.py", "--name", "a b", job=7)
    assert done.returncode == 7
    assert "PASS" not in done.stdout
    assert sorted(done.stdout.split("ran on ")[1:]) == [f"{it}\n" for it in SERVERS.get(name, "node01").split()]
    assert calls(tmp_path)[-1].endswith("|--|train.py|--name|a b|")


@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - {"every-collective"}))
def test_without_a_program_nothing_is_begun(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, name)
    assert done.returncode == 2
    assert done.stderr.endswith(".sh PROGRAM [ARGUMENT ...]\n")
    assert not calls(tmp_path)
