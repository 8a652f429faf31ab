"""Open MPI's mpirun: on the first host, which reaches the others by ssh.

A rank learns its numbers from OMPI_COMM_WORLD_*; torch wants them under other names. mpirun called by its whole path
looks for its own parts there on the other hosts, too; their PATH is that of a shell without login (mpirun(1)).
"""

from preflight.launch.job import HostLaunch, Job, Process
from preflight.launch.launchers.one_host import environment, of_rank, refuse_ipv6, ssh_port
from preflight.launch.words import folded


def launches(job: Job) -> tuple[HostLaunch, ...]:
    """Raises UsageError where hosts have addresses of IPv6."""
    refuse_ipv6(job)
    told = environment(job)
    named = [f"{place.address}:{len(place.devices)}" for place in job.places]
    first = job.planned[job.places[0].name]
    root = (job.cluster.probe.user or first.ssh.user) == "root"
    network = job.network or job.places[0].nic
    forward = job.forward if job.forward or job.cluster.probe.setup else ("PATH", "LD_LIBRARY_PATH")
    port = ssh_port(job)
    groups = [
        (f"{job.mpi_home}/bin/mpirun" if job.mpi_home else "mpirun", *(("--allow-run-as-root",) if root else ())),
        ("-np", str(job.size), "-H", ",".join(named), "--bind-to", "none"),
        tuple(w for part in ("oob", "btl") if network for w in ("--mca", f"{part}_tcp_if_include", network)),
        ("--mca", "plm_rsh_args", f"-p {port}") if port else (),
        tuple(word for name in (*(it.name for it in told), *forward) for word in ("-x", name)),
        of_rank(job, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ]
    argv = tuple(word for group in groups for word in group)
    return (HostLaunch(job.places[0].name, told, folded(*groups), (Process(argv),)),)
