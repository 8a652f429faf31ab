"""torch.multiprocessing.spawn: one process for each host, which starts the others by itself.

A program may read any names of variables; these are the names that our sample reads. Its ranks begin with
NODE_RANK * NPROC_PER_NODE.
"""

from preflight.launch.environment import variables
from preflight.launch.job import HostLaunch, LaunchedJob, RankProcess, Variable
from preflight.launch.words import folded
from preflight.model.errors import UsageError


def launches(job: LaunchedJob) -> tuple[HostLaunch, ...]:
    """Return a command for each host. Raises UsageError where hosts have different numbers of devices."""
    if not job.even:
        raise UsageError(
            "spawn needs the same number of devices on every host, since ranks begin at NODE_RANK * NPROC_PER_NODE"
        )
    argv = (*job.interpreter, *job.program)
    return tuple(
        HostLaunch(
            place.name,
            (
                Variable("NODE_RANK", str(number), "the number of this host, counted from 0"),
                Variable(
                    "NPROC_PER_NODE",
                    str(len(place.devices)),
                    "the number of processes that the program starts on this host",
                ),
                *variables(job, place),
            ),
            folded(argv),
            (RankProcess(argv),),
        )
        for number, place in enumerate(job.places)
    )
