"""A module for each launcher, which makes the commands of a job's hosts. Pure."""

from collections.abc import Callable, Mapping

from preflight.launch.job import HostLaunch, JobLauncher, LaunchedJob
from preflight.launch.launchers import deepspeed, mpirun, msrun, perseusrun, shell, spawn, srun, torch_elastic
from preflight.launch.words import LONGEST
from preflight.model.errors import UsageError

_LAUNCHERS: Mapping[JobLauncher, Callable[[LaunchedJob], tuple[HostLaunch, ...]]] = {
    JobLauncher.TORCHRUN: torch_elastic.launches,
    JobLauncher.LAUNCH: torch_elastic.launches,
    JobLauncher.TORCH_NPU_RUN: torch_elastic.launches,
    JobLauncher.SPAWN: spawn.launches,
    JobLauncher.SHELL: shell.launches,
    JobLauncher.MPIRUN: mpirun.launches,
    JobLauncher.PERSEUSRUN: perseusrun.launches,
    JobLauncher.SRUN: srun.launches,
    JobLauncher.DEEPSPEED: deepspeed.launches,
    JobLauncher.MSRUN: msrun.launches,
}


def launches(job: LaunchedJob) -> tuple[HostLaunch, ...]:
    """Return the commands of each host. Raises UsageError where the launcher cannot start such a job."""
    if job.launcher is JobLauncher.TORCH_NPU_RUN and not job.cluster.product.is_npu:
        raise UsageError(f"torch_npu_run needs NPUs, but the product is {job.cluster.product}. Use torchrun")
    started = _LAUNCHERS[job.launcher](job)
    words = (word for launch in started for process in launch.processes for word in process.argv)
    if any(len(word.encode()) > LONGEST for word in words):
        raise UsageError(
            f"{job.launcher} would need an argument of more than 128 KiB for {len(job.places)} hosts, more than Linux "
            "allows. Use --launcher torchrun or --launcher shell, and start the job on every host"
        )
    return started
