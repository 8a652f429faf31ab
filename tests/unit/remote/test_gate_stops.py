"""The node's gate as a program: whatever hangs, is full, is closed or is killed, it ends with the policy's answer."""

import fcntl
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from preflight.transport.programs import source
from tests.lab.test_old_python import old_pythons
from tests.unit.gate_node import REMOTE, Node

main = importlib.import_module("gate.main")
records = importlib.import_module("gate.record")

MARK = "PREFLIGHT_GATE_TEST"
LOCAL = ("--local", "-o", "json")
PROLOG = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "SLURMD_NODENAME": "node01", "SLURM_JOB_ID": "77"}


class Gate:
    """The program that hosts have, with a folder in the place of the host; only its text can say so."""

    def __init__(self, node: Node, mark: str) -> None:
        self.node, self.mark, self.python = node, mark, sys.executable
        self.seconds = 60.0

    def text(self) -> str:
        settings = f"root={str(self.node.path)!r}, owner={os.getuid()}, seconds={self.seconds}"
        return source("gate").removesuffix("main()\n") + (
            "import functools, gate.ask, gate.vendor\n"
            f"gate.ask.ask = functools.partial(gate.ask.ask, {settings})\n"
            f"gate.vendor.PLACES = ({str(self.node.path / 'hccn_tool')!r},)\n"
            "main()\n"
        )

    def start(self, *arguments: str, environment: dict[str, str] | None = None, **more: Any) -> "subprocess.Popen[str]":
        program = self.node.path / "gate.py"
        if not program.exists() or program.read_text() != self.text():
            self.node.write("gate.py", self.text())
        argv = [self.python, "-IS", str(program), *arguments]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
        return subprocess.Popen(argv, text=True, env={MARK: self.mark, **(environment or {})}, **options)

    def __call__(self, *arguments: str, environment: dict[str, str] | None = None, **more: Any) -> "Done":
        process = self.start(*arguments, environment=environment, **more)
        out, err = process.communicate(timeout=120)
        return Done(process.returncode, out or "", err or "")

    def left(self) -> list[int]:
        """Its processes that still are, once they have had time to end."""
        until = time.monotonic() + 60
        while (found := marked(self.mark)) and time.monotonic() < until:
            time.sleep(0.05)
        return found

    def recorded(self) -> list[dict[str, Any]]:
        file = self.node.file(records.PLACE)
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class Done:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


def marked(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}\0".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    node = Node(tmp_path)
    node.verdict(node.look(time=time.time() - 60, expires=time.time() + 3600))
    made = Gate(node, f"{os.getpid()}-{time.monotonic_ns()}")
    yield made
    left = made.left()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def hang(gate: Gate) -> None:
    """Nobody writes into this pipe: whoever opens it to read waits for ever."""
    gate.node.file("proc/net/tcp").unlink()
    os.mkfifo(gate.node.file("proc/net/tcp"))


ROLES: dict[str, tuple[list[str], dict[str, str], tuple[str, str | None]]] = {
    "by hand": ([], {"PATH": "/usr/bin"}, ("job", "text")),
    "local": (["--local"], {"SLURM_SCRIPT_CONTEXT": "prolog_task"}, ("job", "text")),
    "local in a job": (["--local", "-o", "json"], dict(PROLOG), ("job", "json")),
    "another scheduler": (["--context", "prolog"], {}, ("prolog", "text")),
    "monitoring": (["--context", "health", "--output", "nagios"], {}, ("health", "nagios")),
    "Prolog": ([], PROLOG, ("prolog", None)),
    "Epilog": ([], {**PROLOG, "SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}, ("epilog", None)),
    "TaskProlog": ([], {"SLURM_SCRIPT_CONTEXT": "prolog_task"}, ("task", None)),
    "PrologSlurmctld": ([], {"SLURM_SCRIPT_CONTEXT": "prolog_slurmctld"}, ("controller", None)),
    "HealthCheckProgram": ([], {"SLURMD_NODENAME": "node01"}, ("health", None)),
    "a script that is new": ([], {"SLURM_SCRIPT_CONTEXT": "epilog_task", "SLURMD_NODENAME": "n"}, ("epilog", None)),
    "a key": (["--ssh"], {}, ("ssh", None)),
}


@pytest.mark.parametrize("case", ROLES)
def test_who_asks_is_told_by_options_or_by_slurm(case: str) -> None:
    arguments, environment, expected = ROLES[case]
    assert main.parse_arguments(arguments, environment) == expected


@pytest.mark.parametrize("arguments", [["-o"], ["-o", "xml"], ["--context"], ["--context", "controller"], ["now"]])
def test_a_wrong_command_line_is_code_2_and_one_sentence(gate: Gate, arguments: list[str]) -> None:
    done = gate(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("preflight-gate: ")
    assert done.err.splitlines()[1].startswith("usage: preflight-gate [--local]")


def test_with_an_empty_environment_it_answers_and_writes_that_down(gate: Gate) -> None:
    done = gate(*LOCAL)
    assert (done.code, done.err, done.answer["outcome"], done.answer["open"]) == (0, "", "pass", True)
    done = gate(environment=PROLOG)
    assert (done.code, done.out, done.err) == (0, "preflight-gate: open\n", "")
    by_hand, prolog = gate.recorded()
    assert (by_hand["context"], prolog["context"], prolog["job"]) == ("job", "prolog", "77")
    assert gate.node.file(records.PLACE).stat().st_mode & 0o777 == 0o600


def test_a_broken_host_is_code_1_and_42_in_an_init_container(gate: Gate) -> None:
    gate.node.write("proc/sys/net/ipv4/ip_local_reserved_ports", "\n")
    done = gate("--local")
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("node01 is broken: PRT101: job ports 60000, 60001, 60002 and 30 more are not reserved")
    assert gate("--context", "init").code == 42
    assert gate("--context", "epilog").code == 1
    assert gate(environment={**PROLOG, "SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}).code == 0


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_descriptors_change_nothing(gate: Gate, closed: tuple[int, ...]) -> None:
    before = gate.node.file("var/lib/preflight/verdict.json").read_bytes()

    def close() -> None:
        for descriptor in closed:
            os.close(descriptor)

    assert gate(*LOCAL, preexec_fn=close).code == 0
    gate.node.file("dev/davinci0").unlink()
    assert gate(*LOCAL, preexec_fn=close).code == 1
    assert gate(environment=PROLOG | {"SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}, preexec_fn=close).code == 0
    assert [line["outcome"] for line in gate.recorded()] == ["pass", "fail", "fail"]
    assert gate.node.file("var/lib/preflight/verdict.json").read_bytes() == before


def test_a_reader_that_does_not_read_holds_nothing_up(gate: Gate) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, b"x" * 65536)
    os.set_blocking(writing, True)
    assert gate(*LOCAL, stdout=writing).code == 0
    os.close(reading)
    assert gate(*LOCAL, stdout=writing).code == 0, "nor one that is gone"
    os.close(writing)
    with Path("/dev/full").open("w", encoding="ascii") as full:
        assert gate(*LOCAL, stdout=full, stderr=full).code == 0


def limited(what: int, limit: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (limit, limit))


def test_a_record_that_cannot_be_written_is_lost_and_the_answer_the_same(gate: Gate) -> None:
    assert gate(*LOCAL, preexec_fn=limited(resource.RLIMIT_FSIZE, 0)).code == 0
    assert gate.recorded() == []
    gate.node.file(records.PLACE).unlink()
    gate.node.file(records.PLACE).mkdir()
    assert gate(*LOCAL).code == 0
    gate.node.file(records.PLACE).rmdir()
    gate.node.file(records.PLACE).symlink_to(gate.node.path / "etc/machine-id")
    assert gate(*LOCAL).code == 0
    assert len(gate.node.file("etc/machine-id").read_text().splitlines()) == 1


@pytest.mark.parametrize("limit", [4, 5, 6, 7, 8, 9, 12])
def test_without_descriptors_a_node_is_not_drained(gate: Gate, limit: int) -> None:
    assert gate(environment=PROLOG, preexec_fn=limited(resource.RLIMIT_NOFILE, limit)).code == 0


def test_what_hangs_is_unknown_by_the_policy_and_is_named(gate: Gate) -> None:
    hang(gate)
    gate.seconds = 1.0
    done = gate(*LOCAL)
    assert (done.code, done.answer["outcome"]) == (3, "unknown")
    assert "no answer within 1 s (during PRT103)" in done.answer["sentence"]
    assert gate(environment=PROLOG).code == 0
    assert gate("--context", "init").code == 43
    gate.node.policy(unknown={"prolog": "closed", "job": "open"})
    assert (gate("--context", "prolog").code, gate("--local").code) == (3, 0)
    assert [line["outcome"] for line in gate.recorded()] == ["unknown"] * 5


def test_a_tool_that_hangs_is_ended_with_the_gate(gate: Gate) -> None:
    gate.node.write("proc/sys/kernel/random/boot_id", "99999999\n")
    gate.node.write("hccn_tool", "#!/bin/sh\nexec sleep 1000\n", 0o755)
    gate.seconds = 1.0
    assert "no answer within 1 s (during NPU107)" in gate(*LOCAL).answer["sentence"]
    gate.seconds = 60.0
    assert "hccn_tool did not finish in time" in gate(*LOCAL).answer["sentence"]


def hanging(gate: Gate, *arguments: str, environment: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """A gate whose hccn_tool has been started and hangs."""
    gate.node.write("proc/sys/kernel/random/boot_id", "99999999\n")
    gate.node.write("hccn_tool", f"#!/bin/sh\ntouch {gate.node.path}/hangs\nexec sleep 1000\n", 0o755)
    process = gate.start(*arguments, environment=environment)
    until = time.monotonic() + 60
    while not (gate.node.path / "hangs").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    return process


def test_killed_it_leaves_nothing_behind_that_stays(gate: Gate) -> None:
    """Its child has an alarm of its own, and so has each tool; the fixture waits for them to be gone."""
    process = hanging(gate, *LOCAL)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.communicate()


def test_without_the_child_that_looks_nobody_knows(gate: Gate) -> None:
    """As where the kernel is out of memory."""
    process = hanging(gate, *LOCAL)
    for pid in marked(gate.mark):
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if parent == process.pid:
            os.kill(pid, signal.SIGKILL)
    done = json.loads(process.communicate()[0])
    assert process.returncode == 3
    assert "the check was ended (during NPU107)" in done["sentence"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_ended_by_a_signal_it_has_the_policys_answer(gate: Gate, number: signal.Signals) -> None:
    process = hanging(gate, environment=PROLOG)
    process.send_signal(number)
    if number != signal.SIGINT:  # as systemd's stop, which sends two
        process.send_signal(signal.SIGTERM)
    assert (process.communicate()[0], process.returncode) == ("", 0)


def test_killed_at_any_point_the_next_one_answers_as_before(gate: Gate) -> None:
    before = gate.node.file("var/lib/preflight/verdict.json").read_bytes()
    for step in range(40):
        process = gate.start(*LOCAL)
        time.sleep(step * 0.002)
        process.kill()
        process.communicate()
    assert gate.left() == []
    assert gate.node.file("var/lib/preflight/verdict.json").read_bytes() == before
    done = gate(*LOCAL)
    assert (done.code, done.answer["outcome"]) == (0, "pass")
    assert {line["outcome"] for line in gate.recorded()} == {"pass"}


def test_gates_at_once_do_not_disturb_each_other(gate: Gate) -> None:
    gate.node.write("gate.py", gate.text())  # and so none of them writes it
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: gate(*LOCAL), range(16)))
    assert [one.code for one in done] == [0] * 16
    assert [line["outcome"] for line in gate.recorded()] == ["pass"] * 16


def test_the_hard_end_is_open_for_a_scheduler() -> None:
    """What hangs in the parent itself: the kernel's timer ends it with the code that was agreed on."""
    program = (
        f"import sys; sys.path.insert(0, {REMOTE!r})\n"
        "import gate.main, time\n"
        "gate.main.HARD = 0.2\n"
        "gate.main.run_script = lambda context: time.sleep(1000)\n"
        "sys.argv[1:] = []\n"
        "gate.main.main()"
    )
    done = subprocess.run([sys.executable, "-IS", "-c", program], env=PROLOG, check=False, timeout=120)
    assert done.returncode == 0


def test_a_bug_of_ours_drains_nobody(gate: Gate) -> None:
    text = gate.text().replace("main()\n", "import gate.decide\ngate.decide.known = None\nmain()\n")
    program = gate.node.write("broken.py", text)
    argv = [sys.executable, "-IS", str(program)]
    done = subprocess.run([*argv, "--local"], env={MARK: gate.mark}, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "gate: TypeError: 'NoneType' object is not callable (during the verdict)" in done.stdout
    assert subprocess.run(argv, env={MARK: gate.mark, **PROLOG}, check=False).returncode == 0


@pytest.mark.parametrize("form", ["nagios", "npd"])
def test_other_systems_have_forms_of_their_own(gate: Gate, form: str) -> None:
    done = gate("--local", "-o", form)
    assert (done.code, len(done.out.splitlines())) == (0, 1)
    gate.node.file("dev/davinci1").unlink()
    assert gate("--local", "-o", form).code == {"nagios": 2, "npd": 1}[form]


def test_what_is_recorded_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LIMIT", 64 * 1024)
    monkeypatch.setattr(records, "MOST", 128 * 1024)
    path = tmp_path / "records/gate.jsonl"
    records.append(str(path), b"{}\n")
    assert not path.parent.exists(), "a machine that is not preflight's stays as it is"
    path.parent.mkdir()
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda n: records.append(str(path), b'{"number": %d, "more": "%s"}\n' % (n, b"x" * 900)), range(400)
            )
        )
    records.append(str(path), b'{"number": 400}\n')
    kept = [json.loads(line)["number"] for file in (f"{path}.1", path) for line in Path(file).read_text().splitlines()]
    assert len(kept) == len(set(kept))
    assert kept[-1] == 400
    # Four may write at once before any of them sees that it is full.
    assert all(file.stat().st_size < 132 * 1024 + 4 for file in path.parent.iterdir())
    assert len(list(path.parent.iterdir())) == 2


def test_what_is_recorded_is_bounded_while_whoever_renames_it_does_not_get_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "LIMIT", 4096)
    monkeypatch.setattr(records, "MOST", 8192)
    path = tmp_path / "gate.jsonl"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for _ in range(100):
            records.append(str(path), b"x" * 999 + b"\n")
    assert 8192 < path.stat().st_size <= 8192 + 1000
    records.append(str(path), b"{}\n")
    assert path.read_text() == "{}\n", "and then goes on"


def test_an_answer_with_many_reasons_is_one_write(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.verdict(node.look(*((f"NPU1{number}", "warn", number) for number in range(90))))
    records.record(node.ask(), {"SLURM_JOB_ID": "77"}, str(tmp_path))
    line = node.file(records.PLACE).read_text()
    assert len(line) <= records.LINE
    assert (json.loads(line)["cut"], json.loads(line)["job"]) == (True, "77")


@pytest.mark.parametrize("python", old_pythons() or [None])
def test_the_oldest_pythons_run_it(gate: Gate, python: str | None) -> None:
    if python is None:
        pytest.skip("no Python from 3.6 to 3.8 is installed here, on PATH or beside the one that runs the tests")
    gate.python = python
    assert gate(*LOCAL).answer["outcome"] == "pass"
    gate.node.write("proc/sys/kernel/random/boot_id", "99999999\n")
    gate.node.write("hccn_tool", "#!/bin/sh\necho 'link status: DOWN'\n", 0o755)
    done = gate("--local")
    assert done.code == 1
    assert "node01 is broken: NPU107: device 0: link is DOWN (and 1 more)" in done.out
    hang(gate)
    gate.seconds = 1.0
    assert gate(environment=PROLOG).code == 0
