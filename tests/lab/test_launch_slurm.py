"""What `preflight launch --launcher srun` prints, in an allocation of a real Slurm with two nodes on this machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, preflight
from tests.lab.slurm import Slurm, slurm

__all__ = ["slurm"]  # the fixture

pytestmark = pytest.mark.lab

# Not in Slurm's order: rank 0 has to be on the first host of the inventory all the same.
INVENTORY = f"""
[cluster]
name = "slurm"
product = "cpu"
[network]
nic = "lo"
[probe]
python = "{sys.executable}"
[[hosts]]
name = "node02"
address = "127.0.0.1"
[[hosts]]
name = "node01"
address = "127.0.0.2"
"""


def ran(slurm: Slurm, folder: Path, *program: str) -> str:
    """What the printed script prints within the allocation."""
    (folder / "hosts.toml").write_text(INVENTORY)
    where = ("-i", str(folder / "hosts.toml"), "-o", "scripts", "--dir", str(folder / "start"))
    preflight("launch", "--launcher", "srun", *where, "--devices", "0-1", "--master-port", "29617", "--", *program)
    # The nodes of this Slurm have one processor each.
    environment = {**slurm.environment, "SLURM_JOB_ID": slurm.job, "SLURM_OVERCOMMIT": "1", "OMP_NUM_THREADS": "1"}
    script = ["timeout", "90", "bash", str(folder / "start" / "node02.sh")]
    done = subprocess.run(script, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ranks_are_dealt_out_in_the_inventory_s_order(slurm: Slurm, tmp_path: Path) -> None:
    told = ran(slurm, tmp_path, "sh", "-c", 'echo "$SLURMD_NODENAME $RANK $LOCAL_RANK $WORLD_SIZE $GLOO_SOCKET_IFNAME"')
    assert sorted(told.splitlines()) == ["node01 2 0 4 lo", "node01 3 1 4 lo", "node02 0 0 4 lo", "node02 1 1 4 lo"]


def test_the_sample_trains_as_a_step_of_slurm(slurm: Slurm, tmp_path: Path) -> None:
    said = ran(slurm, tmp_path, str(ROOT / "playbooks" / "toy_train.py"), "--backend", "gloo")
    assert said.splitlines()[-1] == "ranks 4: parameters agree bit by bit"
