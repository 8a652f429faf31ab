"""torchrun, torch.distributed.launch and torch_npu_run: one command for each host, which starts a process per device.

All three take the same options (torch/distributed/run.py). They are started as modules, so that the inventory's Python
runs them. For thousands of ranks, torch_npu_run has another rendezvous than torchrun. It sets `--rdzv-backend parallel`
by itself (torch_npu/distributed/run.py).
"""

from preflight.launch.job import HostLaunch, JobHost, JobLauncher, LaunchedJob
from preflight.launch.launchers.each_host import on_each_host
from preflight.model.errors import UsageError

_MODULES = {
    JobLauncher.TORCHRUN: "torch.distributed.run",
    JobLauncher.LAUNCH: "torch.distributed.launch",
    JobLauncher.TORCH_NPU_RUN: "torch_npu.distributed.run",
}


def launches(job: LaunchedJob) -> tuple[HostLaunch, ...]:
    """Return a command for each host.

    Raises UsageError for torch.distributed.launch and hosts with different numbers of processes. Before torch 1.10 it
    counted their ranks wrong, and the installed version is unknown.
    """
    if job.launcher is JobLauncher.LAUNCH and not job.even:
        raise UsageError(
            "torch.distributed.launch needs the same number of processes on every host. Use --launcher torchrun"
        )
    return on_each_host(job, _groups)


def _groups(job: LaunchedJob, place: JobHost, node_rank: str) -> list[tuple[str, ...]]:
    # With underscores: torch before 2.0 knows no others.
    hosts = ("--nnodes", str(len(job.places)), "--node_rank", node_rank, "--nproc_per_node", str(len(place.devices)))
    return [
        (job.cluster.probe.python, "-m", _MODULES[job.launcher]),
        hosts,
        ("--master_addr", job.master, "--master_port", str(job.port)),
        (*(() if job.is_python else ("--no_python",)), *job.program),
    ]
