"""Tools of a host that leave children behind: none stays, and no program waits for one that holds the output open."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.transport.programs import source
from tests.unit.collector import LOADER, REMOTE, tool

LONG = 100000  # seconds that a child sleeps
PATIENCE = 60  # seconds for the whole program; without its work it would take LONG
# Each writes the pids of its children before it goes on.
WAIT = 'while [ ! -s "$PIDS" ]; do sleep 0.01; done'
LEAVES = {
    "a child": f'sleep {LONG} & echo $! >"$PIDS"',
    "a child that ignores SIGTERM": f"""sh -c 'trap "" TERM; echo $$ >"$PIDS"; sleep {LONG}; sleep {LONG}' & {WAIT}""",
    "a session": f"""setsid sh -c 'echo $$ >"$PIDS"; exec sleep {LONG}' & {WAIT}""",
    "a daemon": f"""(setsid sh -c '(sh -c "echo \\$\\$ >$PIDS; exec sleep {LONG}" &)' &); {WAIT}""",
}
HANGS = f'trap "" TERM HUP INT; echo $$ >"$PIDS"; sleep {LONG}; sleep {LONG}'

COMMAND = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from collect.tools import LookError, Start, adopt_orphans, command, leave
adopt_orphans()
try:
    start = Start(environment=dict(os.environ))
    print(command([sys.argv[2]], time.monotonic() + float(sys.argv[3]), start=start)["out"], end="")
except LookError as error:
    print(error)
sys.stdout.flush()
leave()
"""
ASK = """
import sys
sys.path.insert(0, sys.argv[1])
from agent.processes import adopt_orphans, end_descendants
from agent.settle import ask
import os
adopt_orphans()
print(ask(0))
end_descendants(os.getpid())
"""

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A Python program on stdin or as words, with the folder's tools on PATH: what it prints. No child is left."""

    def run(*words: str, data: bytes = b"") -> str:
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PIDS": str(tmp_path / "pids")}
        done = subprocess.run(
            [sys.executable, "-c", *words],
            input=data,
            capture_output=True,
            timeout=PATIENCE,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        pids = (tmp_path / "pids").read_text().split()
        assert pids, "the tool has begun"
        assert [pid for pid in pids if alive(pid)] == []
        return done.stdout.decode()

    return run


def alive(pid: str) -> bool:
    """Whether a process lives; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("leaves", LEAVES.values(), ids=LEAVES.keys())
def test_what_a_tool_leaves_behind_is_ended_and_not_waited_for(leaves: str, run: Run, tmp_path: Path) -> None:
    tool(tmp_path, "hccn_tool", f"{leaves}; echo answer")
    assert run(COMMAND, str(REMOTE), str(tmp_path / "hccn_tool"), str(LONG)) == "answer\n"


def test_a_tool_that_hangs_and_ignores_signals_is_ended_at_its_deadline(run: Run, tmp_path: Path) -> None:
    tool(tmp_path, "hccn_tool", f"{LEAVES['a session']}; {HANGS}")
    assert run(COMMAND, str(REMOTE), str(tmp_path / "hccn_tool"), "1") == "hccn_tool did not finish in time\n"


def test_a_tool_is_given_more_than_a_pipe_holds(tmp_path: Path) -> None:
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from collect.tools import Start, command;"
        "print(len(command(['cat'], time.monotonic() + 50, 2 << 20, '', Start(b'x' * (1 << 20)))['out']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(REMOTE)], capture_output=True, timeout=PATIENCE, check=True, cwd=tmp_path
    )
    assert done.stdout == b"1048576\n"


@pytest.mark.parametrize("leaves", LEAVES.values(), ids=LEAVES.keys())
def test_the_collector_leaves_nothing_of_a_tool(leaves: str, run: Run, tmp_path: Path) -> None:
    tool(tmp_path, "ss", f"{leaves}; echo Recv-Q")
    words = {"marker": "m", "deadlines": {"sockets": LONG}, "ports": [[1, 1]], "names": [], "called": []}
    program = source("collect").encode()
    answer = run(LOADER.format(len(program)), data=program + json.dumps(words).encode())
    assert json.loads(answer.split("\n")[2])["sockets"]["value"]["out"] == "Recv-Q\n"


@pytest.mark.parametrize("leaves", LEAVES.values(), ids=LEAVES.keys())
def test_the_fetching_of_logs_waits_for_no_child_of_dmesg_or_of_a_container(
    leaves: str, run: Run, tmp_path: Path
) -> None:
    tool(tmp_path, "dmesg", f"{leaves}; echo no >&2; exit 1")
    inside = {"argv": ["sh", "-c", f"{leaves}; cat >/dev/null"], "program": "x" * (1 << 17)}
    words = {
        "marker": "m", "globs": [], "user": "", "age": 1, "most": 1, "each": 1, "passed": [], "kernel": True,
        "inside": inside,
    }  # fmt: skip
    program = source("fetch_logs", "collect.tools").encode()
    answer = json.loads(run(LOADER.format(len(program)), data=program + json.dumps(words).encode()).split("\n")[2])
    assert answer["kernel"] == {"text": answer["kernel"]["text"], "why": "no"}
    assert answer["inside"]["why"] == ""


@pytest.mark.parametrize("leaves", LEAVES.values(), ids=LEAVES.keys())
def test_an_agent_that_waits_for_a_device_waits_for_no_child_of_hccn_tool(
    leaves: str, run: Run, tmp_path: Path
) -> None:
    tool(tmp_path, "hccn_tool", f"{leaves}; echo device hccp process: not exist")
    assert run(ASK, str(REMOTE)) == "not exist\n"
