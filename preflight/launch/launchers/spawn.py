"""torch.multiprocessing.spawn: one process a host, which starts the others by itself.

How it is told what it needs is the program's own affair; these are the names that our sample reads. Its ranks are
NODE_RANK * NPROC_PER_NODE and those that follow.
"""

from preflight.launch.environment import variables
from preflight.launch.job import HostLaunch, Job, Process, Variable
from preflight.launch.words import folded
from preflight.model.errors import UsageError


def launches(job: Job) -> tuple[HostLaunch, ...]:
    """Raises UsageError where hosts have different numbers of devices."""
    if not job.even:
        raise UsageError("spawn wants as many devices on every host, since a program counts NODE_RANK * NPROC_PER_NODE")
    argv = (*job.interpreter, *job.program)
    return tuple(
        HostLaunch(
            place.name,
            (
                Variable("NODE_RANK", str(number), "the place of this host among the hosts"),
                Variable("NPROC_PER_NODE", str(len(place.devices)), "processes that the program is to start here"),
                *variables(job, place),
            ),
            folded(argv),
            (Process(argv),),
        )
        for number, place in enumerate(job.places)
    )
