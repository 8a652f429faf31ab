"""Slurm's srun, in an allocation that holds the hosts under the names of the inventory.

Slurm orders hosts as its configuration does, and rank 0 has to be at MASTER_ADDR. So the command sets the order, with
`--distribution=arbitrary` and a file with a line for each rank (srun(1), SLURM_HOSTFILE).
"""

from preflight.launch.job import HostLaunch, LaunchedJob, LaunchFile, Variable
from preflight.launch.launchers.one_host import environment, of_rank, on_first_host

_FILE = "hosts.srun"


def launches(job: LaunchedJob) -> tuple[HostLaunch, ...]:
    variables = (Variable("SLURM_HOSTFILE", _FILE, "the file with one line for each rank: its host"), *environment(job))
    lines = "".join(f"{place.name}\n" * len(place.devices) for place in job.places)
    groups = [
        ("srun", "--nodes", str(len(job.places)), "--ntasks", str(job.size), "--distribution", "arbitrary"),
        ("--kill-on-bad-exit=1", "--export=ALL"),
        of_rank(job, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ]
    return (on_first_host(job, variables, groups, (LaunchFile(_FILE, lines),)),)
