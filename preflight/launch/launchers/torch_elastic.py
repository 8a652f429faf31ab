"""torchrun, torch.distributed.launch and torch_npu_run: one command a host, which starts a process a device.

All three take the same options (torch/distributed/run.py). They are started as modules, so that it is the Python of the
inventory that runs them. torch_npu_run is torchrun with another way to meet for thousands of ranks: torch_npu sets
`--rdzv-backend parallel` by itself (torch_npu/distributed/run.py).
"""

from preflight.launch.environment import variables
from preflight.launch.job import HostLaunch, Job, Launcher, Place, Process, Variable
from preflight.launch.words import NODE_RANK, folded
from preflight.model.errors import UsageError

_MODULES = {
    Launcher.TORCHRUN: "torch.distributed.run",
    Launcher.LAUNCH: "torch.distributed.launch",
    Launcher.TORCH_NPU_RUN: "torch_npu.distributed.run",
}


def launches(job: Job) -> tuple[HostLaunch, ...]:
    """torchrun counts the ranks of hosts with different numbers of processes right; torch.distributed.launch did not,
    before torch 1.10, and there is no telling which one it is. Raises UsageError."""
    if job.launcher is Launcher.LAUNCH and not job.even:
        raise UsageError("torch.distributed.launch wants as many processes on every host; --launcher torchrun does not")
    return tuple(_launch(job, place, number) for number, place in enumerate(job.places))


def _launch(job: Job, place: Place, number: int) -> HostLaunch:
    told = Variable("NODE_RANK", str(number), "the place of this host among the hosts")
    exact = [word for group in _groups(job, place, str(number)) for word in group]
    return HostLaunch(
        place.name, (told, *variables(job, place)), folded(*_groups(job, place, NODE_RANK)), (Process(tuple(exact)),)
    )


def _groups(job: Job, place: Place, node_rank: str) -> list[tuple[str, ...]]:
    # With underscores: torch before 2.0 knows no others.
    hosts = ("--nnodes", str(len(job.places)), "--node_rank", node_rank, "--nproc_per_node", str(len(place.devices)))
    return [
        (job.cluster.probe.python, "-m", _MODULES[job.launcher]),
        hosts,
        ("--master_addr", job.master, "--master_port", str(job.port)),
        (*(() if job.is_python else ("--no_python",)), *job.program),
    ]
