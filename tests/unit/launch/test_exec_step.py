"""What is started on the nodes: their environments, and the program that starts the command there."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from preflight.inventory import parse
from preflight.launch.exec_step import Table, by_mpirun, by_srun, packed, scripts
from preflight.launch.job import JobLauncher, LaunchedJob
from preflight.launch.places import places
from preflight.model.errors import UsageError
from preflight.transport.engine.open_mpi import Mpirun
from preflight.transport.engine.slurm import SlurmJob as Allocation
from preflight.transport.programs import source

PROGRAM = source("step", "agent.processes")
INVENTORY = """
[cluster]
name = "c"
product = "{product}"
devices = 2
[network]
nic = "10.0.0.0/24"
[probe]
{probe}
[[hosts]]
name = "node[01-02]"
address = "10.0.0.[1-2]"
"""


def job(
    *program: str, product: str = "atlas-a2", probe: str = "", launcher: JobLauncher = JobLauncher.SPAWN
) -> LaunchedJob:
    cluster = parse(INVENTORY.format(product=product, probe=probe), Path("hosts.toml"))
    there = places(cluster, cluster.hosts[::-1], None, None)  # node02 is rank 0's
    return LaunchedJob(launcher, cluster, tuple(there), program, 29500, {"MINE": "a b"}, rank_table="/tmp/table.json")


def ran(script: str) -> dict[str, str]:
    """The environment that the command got: `env -0` is what is started."""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env={"PATH": os.defpath})
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


def test_every_node_gets_its_own_place_and_torchrun_its_options() -> None:
    texts = scripts(job("env", "-0"))
    first, second = ran(texts["node02"]), ran(texts["node01"])
    assert {name: value for name, value in first.items() if second.get(name) != value} == {
        "NODE_RANK": "0", "PET_NODE_RANK": "0", "HCCL_IF_IP": "10.0.0.2",
    }  # fmt: skip
    assert (second["NODE_RANK"], second["PET_NODE_RANK"], second["HCCL_IF_IP"]) == ("1", "1", "10.0.0.1")
    told = {
        "NNODES": "2", "NPROC_PER_NODE": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.2", "MASTER_PORT": "29500",
        "PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": "10.0.0.2", "PET_MASTER_PORT": "29500",
        "PET_RDZV_BACKEND": "static", "PET_RDZV_ENDPOINT": "10.0.0.2:29500", "PET_STANDALONE": "0",
        "RANK_TABLE_FILE": "/tmp/table.json", "RANK_SIZE": "4", "MINE": "a b",
    }  # fmt: skip
    assert {name: first.get(name) for name in told} == told


def test_a_bare_torchrun_reads_them_as_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ran(scripts(job("env", "-0"))["node01"]).items():
        if name.startswith("PET_"):
            monkeypatch.setenv(name, value)
    from torch.distributed.run import parse_args

    options: Any = parse_args(["train.py"])  # type: ignore[no-untyped-call]
    assert (options.nnodes, options.nproc_per_node, int(options.node_rank)) == ("2", "2", 1)
    assert (options.master_addr, int(options.master_port), options.standalone) == ("10.0.0.2", 29500, False)
    assert (options.rdzv_backend, options.rdzv_endpoint) == ("static", "10.0.0.2:29500")


def test_a_process_a_device_gets_its_rank() -> None:
    script = scripts(job("sh", "-c", "echo $RANK $LOCAL_RANK $WORLD_SIZE $DEVICE_ID", launcher=JobLauncher.SHELL))[
        "node01"
    ]
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == ["2 0 4 0", "3 1 4 1"]


def test_jobs_start_where_the_inventory_says() -> None:
    probe = 'setup = "export FROM_SETUP=1"'
    assert ran(scripts(job("env", "-0", probe=probe))["node01"])["FROM_SETUP"] == "1"
    inside = scripts(job("train.py", probe='exec = ["docker", "exec", "jobs"]\npython = "/opt/python"'))["node01"]
    assert "docker exec jobs bash -c" in inside
    assert "/opt/python train.py" in inside


def test_too_much_to_tell_is_refused() -> None:
    noise = os.urandom(2 << 20).hex()
    with pytest.raises(UsageError, match="the settings for 1 nodes are too large for an environment"):
        packed({"node01": noise}, None, PROGRAM)


def test_of_a_large_job_no_variable_is_longer_than_linux_lets_through() -> None:
    told = packed({f"node{n:04}": os.urandom(100).hex() for n in range(2000)}, None, PROGRAM)
    assert len(told) > 3
    assert all(len(f"{name}={value}") < 128 << 10 for name, value in told.items())


def test_srun_starts_one_task_a_node_and_the_job_s_own_wishes_are_not_inherited() -> None:
    here = Allocation("/usr/bin/srun", "17", "node[01-04]", ("--overlap",))
    start = by_srun(here, ["node01", "node03"], {"PREFLIGHT_STEP_0": "x"}, {"HOME": "/h", "SLURM_LABELIO": "1"})
    assert start.environment == {"HOME": "/h", "PREFLIGHT_STEP_0": "x"}
    words = set(start.argv)
    assert {"--jobid=17", "--nodes=2", "--ntasks=2", "--nodelist=node01,node03", "--overlap"} <= words
    assert {"--kill-on-bad-exit=1", "--quit-on-interrupt", "--input=none"} <= words


def test_mpirun_tells_each_node_its_name() -> None:
    addresses = {"node01": "10.0.0.1", "node02": "10.0.0.2"}
    start = by_mpirun(Mpirun("/m", 5, ()), addresses, {"PREFLIGHT_STEP_0": "x"}, {"PATH": "/bin"}, path=True)
    first, second = " ".join(start.argv).split(" : ")
    assert first.startswith("/m --stdin none --bind-to none --host 10.0.0.1:1 -n 1 -x PREFLIGHT_STEP_0 -x PATH python3")
    assert (first.split()[-1], second.split()[-1]) == ("node01", "node02")
    assert "PATH" not in by_mpirun(Mpirun("/m", 4, ()), addresses, {}, {"PATH": "/bin"}, path=False).argv


# The program on a node, with a node's environment.


def on_node(script: str, table: Table | None = None) -> tuple[list[str], Mapping[str, str]]:
    told = packed({"node01": script}, table, PROGRAM)
    run_it = "import os; exec(os.environ.pop('PREFLIGHT_PROGRAM'))"
    return [sys.executable, "-I", "-c", run_it], {**os.environ, **told, "SLURMD_NODENAME": "node01"}


def done_on_node(script: str, table: Table | None = None) -> "subprocess.CompletedProcess[str]":
    argv, environment = on_node(script, table)
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, check=False, input="for nobody", start_new_session=True
    )


@pytest.mark.parametrize(("script", "code"), [("true", 0), ("exit 7", 7), ("nosuch", 127), ("kill -9 $$", 137)])
def test_its_exit_code_is_the_command_s(script: str, code: int) -> None:
    assert done_on_node(script).returncode == code


def test_output_is_untouched_input_is_empty_and_nothing_of_ours_is_in_the_environment() -> None:
    done = done_on_node("cat; printf 'a\\0b'; env | grep -c PREFLIGHT_ >&2")
    assert (done.stdout, done.stderr) == ("a\0b", "0\n")


def test_a_rank_table_is_there_while_the_command_runs(tmp_path: Path) -> None:
    table = Table(str(tmp_path / "preflight-rank-table-1f.json"), json.dumps({"version": "1.0"}))
    left = tmp_path / "preflight-rank-table-ab12.json"
    other = tmp_path / "table.json"
    left.touch()
    other.touch()
    done = done_on_node(f"cat {table.path}; stat -c ' %a' {table.path}; exit 3", table)
    assert (done.stdout, done.returncode) == ('{"version": "1.0"} 644\n', 3)
    assert sorted(tmp_path.iterdir()) == [other]  # what a killed one had left is gone, too


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_somebody_else_has_put_beside_the_table_keeps_nobody_waiting(kind: str, tmp_path: Path) -> None:
    beside, elsewhere = tmp_path / "preflight-rank-table-aa.json", tmp_path / "elsewhere"
    elsewhere.touch()
    os.mkfifo(beside) if kind == "pipe" else beside.symlink_to(elsewhere)
    done = done_on_node("exit 3", Table(str(tmp_path / "preflight-rank-table-1f.json"), "{}"))
    assert (done.stderr, done.returncode) == ("", 3)
    assert sorted(tmp_path.iterdir()) == [elsewhere, beside]


def test_a_table_that_is_gone_changes_no_exit_code(tmp_path: Path) -> None:
    table = Table(str(tmp_path / "preflight-rank-table-1f.json"), "{}")
    done = done_on_node(f"rm {table.path}", table)
    assert (done.stderr, done.returncode) == ("", 0)


def test_the_table_of_one_that_runs_is_left_alone(tmp_path: Path) -> None:
    mine, others = (Table(str(tmp_path / f"preflight-rank-table-{n}.json"), "{}") for n in (1, 2))
    argv, environment = on_node("echo up; sleep 60", others)
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, start_new_session=True) as running:
        assert running.stdout
        running.stdout.readline()
        assert done_on_node(f"test -e {others.path}", mine).returncode == 0
        running.terminate()
    assert not list(tmp_path.iterdir())


def test_a_signal_after_its_own_end_changes_no_exit_code() -> None:
    """Of an engine that has seen another node fail at the same time. The failure is told a second after the start."""
    argv, environment = on_node("echo $$; exit 127")
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, start_new_session=True) as running:
        assert running.stdout
        gone(running.stdout.readline().decode().strip())
        time.sleep(0.1)
        running.terminate()
        assert running.wait() == 127


def test_told_to_end_it_ends_all_and_its_code_is_the_least(tmp_path: Path) -> None:
    fork = f"(setsid sh -c 'echo $$ > {tmp_path}/far; exec sleep 60' &)"
    argv, environment = on_node(
        f"{fork}; trap 'exit 9' TERM; while [ ! -s {tmp_path}/far ]; do :; done; echo up; sleep 60 & wait"
    )
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, start_new_session=True) as running:
        assert running.stdout
        running.stdout.readline()
        running.terminate()
        assert running.wait() == 1
    gone((tmp_path / "far").read_text().strip())


def gone(pid: str) -> None:
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > until:
            os.kill(int(pid), signal.SIGKILL)
            pytest.fail("what has forked away goes on")
        time.sleep(0.05)


def test_what_the_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    fork = f"(setsid sh -c 'echo $$ > {tmp_path}/far; exec sleep 60' &)"
    assert done_on_node(f"{fork}; while [ ! -s {tmp_path}/far ]; do :; done").returncode == 0
    gone((tmp_path / "far").read_text().strip())
