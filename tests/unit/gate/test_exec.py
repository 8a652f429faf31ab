"""`preflight exec`: what is refused before anybody is contacted, and where srun reaches nobody."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.gate.exec_allocation import cluster_of
from preflight.inventory import InventoryError
from preflight.model.cluster import Product
from preflight.model.errors import UsageError

ROOT = Path(__file__).parents[3]
INVENTORY = """
[cluster]
name = "c"
product = "{product}"
devices = {devices}
[network]
nic = "eth0"
[[hosts]]
name = "node[01-04]"
address = "10.0.0.[1-4]"
"""
# Of the real one: it makes no step for the probe's relays. What is started after that runs here, as one of the nodes.
SRUN = """#!/bin/sh
[ "$1" = --help ] && { echo --overlap; exit; }
[ "$PREFLIGHT_STEP_0" ] || { echo 'srun: error: Unable to create step for job 17: Socket timed out' >&2; exit 1; }
printf '%s\\n' "$*" > "$RECORD"
grep SigIgn /proc/$$/status >> "$RECORD"
while [ "$1" != python3 ]; do shift; done
SLURMD_NODENAME=node03 exec "$@"
"""
JOB = {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "node[02-03],node09"}


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four hosts, of which the job has two; it also has a node that is none of them."""
    (tmp_path / "srun").write_text(SRUN)
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "hosts.toml"
    path.write_text(INVENTORY.format(product="atlas-a2", devices=2))
    return path


def refused(capsys: pytest.CaptureFixture[str], inventory: Path, *words: str) -> str:
    assert main(["exec", "-i", str(inventory), *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("preflight: no host was contacted.\n")
    return said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no command to run. Example: preflight exec -- torchrun train.py"),
        (["--"], "no command to run"),
        (["--", ""], "no command to run"),
        (["--nodes", "3", "--", "x"], "the command needs 3 nodes, but there are only 2"),
        (["--nodes", "2", "--", "torchrun", "--nnodes", "3", "x"], "has --nnodes 3, but preflight exec has --nodes 2"),
        (["torchrun", "--nnodes", "3", "x"], "the command needs 3 nodes, but there are only 2"),
        (["torchrun", "--nproc-per-node", "8", "x"], "has --nproc-per-node 8, but exec passes 2"),
        (["torchrun", "--rdzv-backend", "c10d", "x"], "preflight exec --no-rank-table"),
        (["--devices", "7", "--", "x"], "has devices 0 to 1 in the inventory, but not 7"),
        (["--master-port", "80", "--", "x"], "--master-port 80 is out of range: 1024 to 65535"),
        (["--env", "RANK=1", "--", "x"], "--env RANK: the launcher sets this variable"),
        (["--via", "ssh", "--", "x"], "exec needs a Slurm job (run salloc first) or --via mpi"),
        (["--with", "hccl-test", "--", "x"], "HCCL Test runs over ssh, but exec uses srun or mpirun"),
        (["--limit", "node01", "--", "x"], "is in job 17, which has the nodes node[02-03],node09"),
        (["--save", "/nowhere/r.json", "--", "x"], "--save /nowhere/r.json: cannot write in /nowhere"),
    ],
)
def test_what_is_refused(inventory: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert said in refused(capsys, inventory, *words)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SLURM_JOB_ID": None}, "exec needs a Slurm job (run salloc first)"),
        ({"SLURM_JOB_ID": ""}, "--via slurm runs only within a Slurm job"),
        ({"SLURM_JOB_NODELIST": None}, "salloc -N 4 --exclusive preflight exec …"),
        ({"SLURM_JOB_NODELIST": "node[02-"}, "SLURM_JOB_NODELIST:1:5: the bracket is never closed"),
        ({"SLURM_JOB_NODELIST": "node[3-2]"}, "SLURM_JOB_NODELIST:1:"),
        ({"SLURM_JOB_NODELIST": "gpu[1-2]"}, "is in job 17, which has the nodes gpu[1-2]"),
        ({"PATH": "/nowhere"}, "--via slurm needs srun on this machine"),
    ],
)
def test_a_job_that_is_none(
    inventory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    environment: Mapping[str, str | None],
    said: str,
) -> None:
    for name, value in environment.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    assert said in refused(capsys, inventory, "--", "x")


def run_exec(inventory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, whose place srun takes."""
    inventory.write_text(INVENTORY.format(product="cpu", devices=1))
    command = [sys.executable, "-m", "preflight", "exec", "-i", str(inventory), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


SAY = ("--", "sh", "-c", 'echo "$NODE_RANK of $PET_NNODES at $MASTER_ADDR"; exit 5')


def test_where_nobody_can_say_whether_nodes_are_good_nothing_is_run(inventory: Path) -> None:
    done = run_exec(inventory, *SAY)
    assert (done.returncode, done.stdout) == (3, "")
    assert "left out: node09 of job 17, not in" in done.stderr
    assert "srun has ended: srun: error: Unable to create step for job 17: Socket timed out" in done.stderr
    assert not (inventory.parent / "record").exists()


def test_unless_that_is_what_is_wanted(inventory: Path) -> None:
    done = run_exec(inventory, "--unknown", "open", "--nodes", "2", *SAY)
    assert (done.returncode, done.stdout) == (5, "1 of 2 at 10.0.0.2\n")
    assert "The command starts nevertheless (--unknown open)." in done.stderr
    assert done.stderr.endswith("preflight: starting sh on 2 of 2 nodes: node[02-03]\n")
    words, ignored = (inventory.parent / "record").read_text().splitlines()
    assert "--jobid=17 --nodes=2 --ntasks=2" in words
    assert not int(ignored.split()[1], 16) & 1 << 12  # SIGPIPE, which Python ignores, is srun's again


# Without an inventory.

SLURM = {"SLURM_JOB_NODELIST": "gpu[1-2]", "SLURM_CLUSTER_NAME": "prod"}


def test_without_an_inventory_the_hosts_are_the_job_s() -> None:
    addresses = {"gpu1": "10.0.0.1", "gpu2": "10.0.0.2"}
    cluster, _ = cluster_of({**SLURM, "SLURM_GPUS_ON_NODE": "4"}, "", None, addresses.__getitem__)
    assert (cluster.name, cluster.product, cluster.probe.backend) == ("prod", Product.NVIDIA, "nccl")
    assert [(host.name, host.address, len(host.devices)) for host in cluster.hosts] == [
        ("gpu1", "10.0.0.1", 4), ("gpu2", "10.0.0.2", 4),
    ]  # fmt: skip


def test_what_nobody_tells_is_assumed_and_said() -> None:
    cluster, assumed = cluster_of(SLURM, "atlas-a2", None, {"gpu1": "10.0.0.1", "gpu2": "10.0.0.2"}.__getitem__)
    assert cluster.device_count == 16
    assert any("assumed to have 8 devices each" in sentence for sentence in assumed)


def test_the_product_is_not_guessed() -> None:
    with pytest.raises(UsageError, match=r"Slurm does not provide the hosts' device type\. Set it with --product"):
        cluster_of(SLURM, "", None, str)


def test_a_name_that_nobody_resolves_wants_an_inventory() -> None:
    def unknown(_: str) -> str:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(UsageError, match="gpu1 does not resolve to an address on this machine"):
        cluster_of(SLURM, "nvidia", 8, unknown)


@pytest.mark.parametrize("nodes", ["gpu[1-", "", "gpu[2-1]", "-x"])
def test_malformed_variables_are_told(nodes: str) -> None:
    with pytest.raises(InventoryError, match=r"the environment|SLURM_JOB_NODELIST is not set"):
        cluster_of({"SLURM_JOB_NODELIST": nodes}, "nvidia", 8, str)
