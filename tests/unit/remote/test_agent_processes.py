"""What an agent leaves to its children, and what it makes of strange records in its directory."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent.lease import Lease

REMOTE = Path(__file__).parents[3] / "preflight/remote"

HOLDER = """
import fcntl, sys
record = open(sys.argv[1], "r+")
fcntl.lockf(record, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""

FORK = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from agent.children import fork
wake, woken = os.pipe()
os.set_blocking(woken, False)
signal.set_wakeup_fd(woken)
mine = os.fstat(woken).st_ino
pid, *_ = fork("preflight-child", lambda: os.close(wake))
if pid == 0:
    kept = [fd for fd in range(20) if os.path.exists("/proc/self/fd/%d" % fd) and os.fstat(fd).st_ino == mine]
    os._exit(len(kept))
sys.exit(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
"""

SHARE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from agent.children import share_cores
share_cores(sys.argv[2] == "crowded")
sys.exit(os.sched_getscheduler(0))
"""


@pytest.fixture
def lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lease]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    lease = Lease({"silence": 0.5, "patience": 0.5, "by": "kim@desk", "nonce": "1"})
    yield lease
    lease.give_back()


def test_the_last_agent_removes_the_directory_and_the_next_one_that_waits_for_it_makes_its_own(
    lease: Lease, tmp_path: Path
) -> None:
    lease.take()
    other = Lease({"silence": 0.5, "patience": 0.5, "by": "kim@desk", "nonce": "1"})
    other.lock_directory()  # it has opened what is removed now
    fcntl.flock(other.directory, fcntl.LOCK_UN)
    lease.give_back()
    assert list(tmp_path.iterdir()) == []
    assert other.take() == []
    (directory,) = tmp_path.iterdir()
    assert [record.name for record in directory.iterdir()] == [other.name]
    other.give_back()


@pytest.mark.parametrize("about", ["[]", "null", "7", "{}", '"text"', "no JSON"])
def test_a_held_file_that_is_no_record_is_in_nobodys_way(lease: Lease, tmp_path: Path, about: str) -> None:
    lease.take()
    (directory,) = tmp_path.iterdir()
    (directory / lease.name).unlink()
    strange = directory / f"{lease.boot}-strange"
    strange.write_text(f"{0:020.3f}\n{about}")
    code = [sys.executable, "-c", HOLDER, str(strange)]
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert lease.take() == []
        holder.communicate()
    assert strange.exists()


def test_a_child_keeps_no_end_of_the_pipe_that_wakes_the_agent() -> None:
    ended = subprocess.run([sys.executable, "-c", FORK, REMOTE], check=False, timeout=20)
    assert ended.returncode == 0


@pytest.mark.parametrize(("where", "policy"), [("crowded", os.SCHED_BATCH), ("with cores for all", os.SCHED_OTHER)])
def test_ranks_that_share_cores_do_not_push_one_another_off_them(where: str, policy: int) -> None:
    assert subprocess.run([sys.executable, "-c", SHARE, REMOTE, where], check=False).returncode == policy
