"""MindSpore's msrun: one command a host (mindspore.cn, "msrun launching"). Printed as documented; never run by us.

It asks `ip -j addr` whether the master's address is this host's. Where hosts have different numbers of devices,
node_rank is not given, and MindSpore deals the ranks out by itself.
"""

from preflight.launch.environment import variables
from preflight.launch.job import HostLaunch, Job, Place, Process, Variable
from preflight.launch.words import NODE_RANK, folded
from preflight.model.errors import UsageError


def launches(job: Job) -> tuple[HostLaunch, ...]:
    """Raises UsageError for a program that is no Python file, and where ranks would not be those of the rank table."""
    if job.rank_table and not job.even:
        raise UsageError("msrun deals ranks out by itself where hosts have different numbers of devices: take shell")
    if job.program[0] == "-m" or not job.is_python:
        raise UsageError(f"msrun starts Python files, and {job.program[0]} is none")
    return tuple(_launch(job, place, number) for number, place in enumerate(job.places))


def _launch(job: Job, place: Place, number: int) -> HostLaunch:
    told = Variable("NODE_RANK", str(number), "the place of this host among the hosts")
    exact = tuple(word for group in _groups(job, place, str(number)) for word in group)
    return HostLaunch(
        place.name, (told, *variables(job, place)), folded(*_groups(job, place, NODE_RANK)), (Process(exact),)
    )


def _groups(job: Job, place: Place, node_rank: str) -> list[tuple[str, ...]]:
    return [
        ("msrun", "--worker_num", str(job.size), "--local_worker_num", str(len(place.devices))),
        ("--master_addr", job.master, "--master_port", str(job.port)),
        ("--node_rank", node_rank) if job.even else (),
        ("--join", "True", "--log_dir", "msrun_log"),
        job.program,
    ]
