"""What slurm.conf names: whatever has become of the program behind it, only its own explicit answer closes a node."""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from preflight.gate.install import PROGRAM, front_text, is_ours, program_text

SHELLS = [shell for shell in ("dash", "bash", "ksh", "mksh", "yash") if shutil.which(shell)]
ROLES = {
    "Prolog": {"SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "SLURMD_NODENAME": "node01", "SLURM_JOB_ID": "77"},
    "Epilog": {"SLURM_SCRIPT_CONTEXT": "epilog_slurmd", "SLURMD_NODENAME": "node01", "SLURM_JOB_ID": "77"},
    "TaskProlog": {"SLURM_SCRIPT_CONTEXT": "prolog_task", "SLURMD_NODENAME": "node01", "SLURM_JOB_ID": "77"},
    "HealthCheckProgram": {"SLURMD_NODENAME": "node01"},
    "PrologSlurmctld": {"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld", "SLURM_JOB_ID": "77"},
}
NODE_ROLES = [role for role in ROLES if role != "PrologSlurmctld"]
CLOSES = ("Prolog", "TaskProlog", "PrologSlurmctld")
CLOSED = "#!/bin/sh\necho print preflight: bad\necho 'preflight-gate: closed'\nexit 1\n"


class Front:
    """The front with folders of the test's in the place of the host's; only its text can say so."""

    def __init__(self, path: Path) -> None:
        self.path, self.program, self.folder = path, path / "gate", path / "kept"
        self.folder.mkdir()
        text = front_text().replace(PROGRAM, str(self.program)).replace("/var/lib/preflight", str(self.folder))
        # Faults are to be waited for, but not for long; the system's log is not the test's.
        text = text.replace("limit=9 ", "limit=2 ").replace("seconds + 45", "seconds - 58").replace("logger", "true")
        self.script = path / "preflight-gate"
        self.write(self.script, text.replace("/etc/preflight/controller.json", str(path / "controller.json")))

    def write(self, path: Path, text: str | bytes, mode: int = 0o755) -> None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)

    def run(self, role: str, shell: str = "", **more: Any) -> "subprocess.CompletedProcess[str]":
        words = [str(shutil.which(shell)), *(["--posix"] if shell == "bash" else [])] if shell else []
        command = [*words, str(self.script)]
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, env=ROLES[role], capture_output=True, text=True, errors="replace", timeout=60, **more
        )
        return done

    def record(self) -> list[dict[str, object]]:
        file = self.folder / "gate.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def front(tmp_path: Path) -> Front:
    return Front(tmp_path)


def cut(front: Front) -> None:
    text = program_text(sys.executable)
    front.write(front.program, text[: len(text) // 2])


BROKEN: dict[str, Callable[[Front], object]] = {
    "deleted": lambda front: front.program.unlink(missing_ok=True),
    "mode 644": lambda front: front.write(front.program, CLOSED, 0o644),
    "a syntax error": lambda front: front.write(front.program, f"#!{sys.executable}\ndef (\n"),
    "cut in half": cut,
    "empty": lambda front: front.write(front.program, ""),
    "its interpreter is gone": lambda front: front.write(front.program, "#!/no/such/python3 -IS\n"),
    "a directory": lambda front: front.program.mkdir(),
    "a link to nothing": lambda front: front.program.symlink_to("/no/such/file"),
    "killed": lambda front: front.write(front.program, "#!/bin/sh\necho 'preflight-gate: closed'\nkill -9 $$\n"),
    "an endless loop": lambda front: front.write(front.program, f"#!{sys.executable}\nwhile True: pass\n"),
    "stopped": lambda front: front.write(front.program, "#!/bin/sh\nkill -STOP $$\n"),
    "deaf to signals": lambda front: front.write(front.program, "#!/bin/sh\ntrap '' TERM INT HUP\nsleep 50\n"),
    "the word with exit code 0": lambda front: front.write(front.program, CLOSED.replace("exit 1", "exit 0")),
    "the exit code without the word": lambda front: front.write(front.program, "#!/bin/sh\necho closed\nexit 1\n"),
    "another exit code": lambda front: front.write(front.program, CLOSED.replace("exit 1", "exit 3")),
    "the word is not the last": lambda front: front.write(front.program, CLOSED.replace("exit 1", "echo; exit 1")),
    "open with exit code 1": lambda front: front.write(front.program, CLOSED.replace("closed", "open")),
    "its own whole process group killed": lambda front: front.write(front.program, "#!/bin/sh\nkill -9 0\n"),
    "its timeout killed": lambda front: front.write(front.program, "#!/bin/sh\nkill -9 $PPID\n"),
    "the word behind other text": lambda front: front.write(front.program, CLOSED.replace("'pre", "'not pre")),
    "noise without end": lambda front: front.write(front.program, "#!/bin/sh\nexec tr '\\0' 'x' </dev/zero\n"),
    "rubbish": lambda front: front.write(front.program, "#!/bin/sh\nhead -c 99999 /dev/urandom\nexit 1\n"),
}  # fmt: skip


ON_NODES = ("its own whole process group killed",)  # on the controller it ends the job's start, and drains no node


@pytest.mark.parametrize(
    ("how", "role"), [(how, role) for how in BROKEN for role in ROLES if how not in ON_NODES or role in NODE_ROLES]
)
def test_a_program_that_does_not_answer_opens_and_is_logged(front: Front, how: str, role: str) -> None:
    BROKEN[how](front)
    done = front.run(role)
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = front.record()
    assert str(line["slurm"]).startswith("the node stays open: ")
    assert line["job"] == ROLES[role].get("SLURM_JOB_ID", "")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("role", ROLES)
def test_an_explicit_answer_counts_where_slurm_asks_for_one(front: Front, role: str, shell: str) -> None:
    front.write(front.program, "#!/bin/sh\necho 'preflight-gate: open'\n")
    done = front.run(role, shell)
    assert (done.returncode, done.stdout, done.stderr, front.record()) == (0, "", "", [])
    front.write(front.program, CLOSED)
    done = front.run(role, shell)
    closes = role in CLOSES
    printed = "print preflight: bad\n"
    assert (done.returncode, done.stdout) == (closes, printed if role == "TaskProlog" else "")
    assert (printed in done.stderr) == (role != "TaskProlog")
    assert len(front.record()) == (not closes)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("how", ["deleted", "killed", "the word with exit code 0", "rubbish"])
def test_no_shell_closes_without_the_answer(front: Front, how: str, shell: str) -> None:
    BROKEN[how](front)
    done = front.run("Prolog", shell)
    assert (done.returncode, done.stdout, len(front.record())) == (0, "", 1)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_front_that_is_cut_off_opens(front: Front, shell: str) -> None:
    """At every line behind the one that sees to it."""
    front.write(front.program, CLOSED)
    text = front.script.read_text()
    begin = text.index("trap 'exit 0' EXIT")
    lines = text[begin:].splitlines(keepends=True)
    # The last lines are behind the answer, which counts by then.
    answered = next(number for number, line in enumerate(lines) if line.startswith("code=$"))
    for number in range(1, answered):
        front.write(front.script, text[:begin] + "".join(lines[:number]))
        done = front.run("Prolog", shell)
        closed = any(line.strip() == 'exit "$code"' for line in lines[:number])
        assert done.returncode == 0 or closed, (number, lines[number - 1], done.stderr)


def test_without_timeout_it_opens_and_says_so(front: Front, tmp_path: Path) -> None:
    front.write(front.program, CLOSED)
    (tmp_path / "bin").mkdir()
    for name in ("date", "sleep", "wc", "dd", "tr"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    text = front.script.read_text().splitlines(keepends=True)
    kept = [f"PATH={tmp_path}/bin\n" if line.startswith("PATH=") else line for line in text]
    front.write(front.script, "".join(kept))
    assert front.run("Prolog").returncode == 0
    (line,) = front.record()
    assert line["slurm"] == "the node stays open: timeout (coreutils) is not installed; preflight gate install"


def test_a_full_disk_for_its_log_opens_all_the_same(front: Front) -> None:
    front.folder.rmdir()
    front.folder.mkdir(0o500)
    (front.folder / "gate.jsonl").symlink_to("/dev/full")
    assert front.run("Prolog").returncode == 0
    (front.folder / "gate.jsonl").unlink()
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # noqa: E731
    assert front.run("Prolog", preexec_fn=limit).returncode == 0
    assert front.record() == []


def test_a_log_that_hangs_holds_no_job_up(front: Front) -> None:
    """Nobody reads this pipe, and nobody answers in the place of the system's log."""
    os.mkfifo(front.folder / "gate.jsonl")
    text = front.script.read_text()
    front.write(front.script, text.replace("true -t preflight-gate", "sleep 20 -t preflight-gate #"))
    assert front.run("Prolog").returncode == 0


@pytest.mark.parametrize("start", ["sleep 30 &", "setsid sleep 30 &"])
def test_a_process_left_behind_holds_no_job_up_and_hides_no_answer(front: Front, start: str) -> None:
    """It has the program's output open, as a tool has that hangs in the kernel."""
    front.write(front.program, CLOSED.replace("\n", f"\n{start}\necho $! >{front.path}/pid\n", 1))
    begun = time.monotonic()
    done = front.run("TaskProlog")
    assert time.monotonic() - begun < 15
    assert (done.returncode, done.stdout) == (1, "print preflight: bad\n")
    front.write(front.program, f"#!/bin/sh\nkill -9 $(cat {front.path}/pid)\n{start}\necho $! >{front.path}/pid\n")
    assert front.run("Prolog").returncode == 0
    subprocess.run(["kill", "-9", (front.path / "pid").read_text().strip()], check=False)


def test_its_log_is_bounded(front: Front) -> None:
    front.write(front.folder / "gate.jsonl", b"{}\n" * 700_000)
    assert front.run("Prolog").returncode == 0
    assert (front.folder / "gate.jsonl").stat().st_size == 2_100_000


@pytest.mark.parametrize(
    "environment", [{"SHELLOPTS": "errexit:nounset"}, {"SLURM_JOB_ID": '1"; touch x'}, {"IFS": "0"}]
)
def test_no_environment_closes_it(front: Front, environment: dict[str, str]) -> None:
    done = subprocess.run([front.script], env={**ROLES["TaskProlog"], **environment}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert front.record()[0]["job"] in ("77", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user with one process")
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_that_cannot_fork_opens(front: Front, shell: str) -> None:
    front.write(front.program, CLOSED)

    def one_process() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.setgroups([])
        os.setgid(64999)
        os.setuid(64999)

    with front.script.open() as script:  # in a folder that only root may enter
        front.script = Path(f"/proc/self/fd/{script.fileno()}")
        done = front.run("Prolog", shell, preexec_fn=one_process, pass_fds=(script.fileno(),))
    assert (done.returncode, done.stdout) == (0, "")
    assert "fork" in done.stderr


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [("", 2), ('{"seconds": 59}', 1), ('{"seconds": "x"}', 2), ('{"seconds": 007}', 2), ('{"seconds": 59}\n' * 2, 2)],
)
def test_the_controllers_time_is_that_of_its_settings(front: Front, settings: str, seconds: int) -> None:
    front.write(front.path / "controller.json", settings)
    BROKEN["an endless loop"](front)
    assert front.run("PrologSlurmctld").returncode == 0
    assert f"ran for more than {seconds} s" in str(front.record()[0]["slurm"])


@pytest.mark.parametrize("arguments", [["--local"], ["-o", "nagios"], ["--ssh"]])
def test_with_options_it_is_the_program_itself(front: Front, arguments: list[str]) -> None:
    front.write(front.program, '#!/bin/sh\necho "$@"\ncat\nexit 3\n')
    done = subprocess.run(
        [front.script, *arguments], input="text\n", env=ROLES["Prolog"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (3, " ".join(arguments) + "\ntext\n")
    front.program.unlink()
    assert subprocess.run([front.script, *arguments], env={}, capture_output=True).returncode == 127


def test_the_real_program_answers_it(front: Front) -> None:
    """Without a policy nobody knows, which opens."""
    front.write(front.program, program_text(sys.executable))
    text = front.script.read_text().replace("limit=2", "limit=60")
    front.write(front.script, text)
    for role in ("Prolog", "Epilog", "TaskProlog", "HealthCheckProgram"):
        done = front.run(role)
        assert (done.returncode, done.stdout, front.record()) == (0, "", []), role


def test_the_front_is_ours() -> None:
    assert is_ours("/usr/local/sbin/preflight-gate", front_text())
    assert "@VERSION@" not in front_text()
