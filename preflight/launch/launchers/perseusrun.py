"""perseusrun of AIACC-Training, whose ranks meet as Horovod's do (alibabacloud.com, "Startup commands and environment
variables"). Printed as documented; never run by us."""

from preflight.launch.job import HostLaunch, Job, Process
from preflight.launch.launchers.one_host import environment, refuse_ipv6
from preflight.launch.words import folded
from preflight.model.errors import UsageError


def launches(job: Job) -> tuple[HostLaunch, ...]:
    """Raises UsageError on NPUs, and where hosts have addresses of IPv6."""
    if job.cluster.product.is_npu:
        raise UsageError("perseusrun is AIACC-Training's, for NVIDIA GPUs; on NPUs take torchrun, shell or mpirun")
    refuse_ipv6(job)
    told = environment(job)
    named = [f"{place.address}:{len(place.devices)}" for place in job.places]
    groups = [
        ("perseusrun", *(("--mpi",) if len(job.places) > 1 else ()), "-np", str(job.size)),
        ("-H", ",".join(named), "--"),
        (*job.interpreter, *job.program),
    ]
    argv = tuple(word for group in groups for word in group)
    return (HostLaunch(job.places[0].name, told, folded(*groups), (Process(argv),)),)
