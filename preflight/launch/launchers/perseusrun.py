"""perseusrun of AIACC-Training, with ranks that meet as Horovod's do.

Its commands follow alibabacloud.com, "Startup commands and environment variables", and were never run by us.
"""

from preflight.launch.job import HostLaunch, LaunchedJob
from preflight.launch.launchers.one_host import environment, on_first_host, refuse_ipv6
from preflight.model.errors import UsageError


def launches(job: LaunchedJob) -> tuple[HostLaunch, ...]:
    """Return the one command. Raises UsageError on NPUs, and where hosts have addresses of IPv6."""
    if job.cluster.product.is_npu:
        raise UsageError("perseusrun (AIACC-Training) supports only NVIDIA GPUs. Use torchrun, shell or mpirun on NPUs")
    refuse_ipv6(job)
    hosts = ",".join(f"{place.address}:{len(place.devices)}" for place in job.places)
    groups = [
        ("perseusrun", *(("--mpi",) if len(job.places) > 1 else ()), "-np", str(job.size)),
        ("-H", hosts, "--"),
        (*job.interpreter, *job.program),
    ]
    return (on_first_host(job, environment(job), groups),)
