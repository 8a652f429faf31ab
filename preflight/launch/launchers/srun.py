"""Slurm's srun, in an allocation that holds the hosts under the names of the inventory.

Slurm orders hosts as its configuration does, and rank 0 has to be where MASTER_ADDR is; so the order is written down,
with `--distribution=arbitrary` and a file with a line a rank (srun(1), SLURM_HOSTFILE).
"""

from preflight.launch.job import File, HostLaunch, Job, Process, Variable
from preflight.launch.launchers.one_host import environment, of_rank
from preflight.launch.words import folded

_FILE = "hosts.srun"


def launches(job: Job) -> tuple[HostLaunch, ...]:
    told = (Variable("SLURM_HOSTFILE", _FILE, "the host of every rank, a line each"), *environment(job))
    lines = "".join(f"{place.name}\n" * len(place.devices) for place in job.places)
    groups = [
        ("srun", "--nodes", str(len(job.places)), "--ntasks", str(job.size), "--distribution", "arbitrary"),
        ("--kill-on-bad-exit=1", "--export=ALL"),
        of_rank(job, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ]
    argv = tuple(word for group in groups for word in group)
    return (HostLaunch(job.places[0].name, told, folded(*groups), (Process(argv),), (File(_FILE, lines),)),)
