"""Open MPI's mpirun: on the first host, which reaches the others by ssh.

A rank learns its numbers from OMPI_COMM_WORLD_*, and torch expects other names. Called by its whole path,
mpirun uses that path on the other hosts, too. Their PATH is that of a shell without login (mpirun(1)).
"""

from preflight.launch.job import HostLaunch, LaunchedJob
from preflight.launch.launchers.one_host import environment, of_rank, on_first_host, refuse_ipv6, ssh_port


def launches(job: LaunchedJob) -> tuple[HostLaunch, ...]:
    """Return the one command. Raises UsageError where hosts have addresses of IPv6."""
    refuse_ipv6(job)
    variables = environment(job)
    hosts = ",".join(f"{place.address}:{len(place.devices)}" for place in job.places)
    forward = job.forward if job.forward or job.cluster.probe.setup else ("PATH", "LD_LIBRARY_PATH")
    names = (*(variable.name for variable in variables), *forward)
    groups = [
        (f"{job.mpi_home}/bin/mpirun" if job.mpi_home else "mpirun", *_as_root(job)),
        ("-np", str(job.size), "-H", hosts, "--bind-to", "none"),
        *_network(job),
        tuple(word for name in names for word in ("-x", name)),
        of_rank(job, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ]
    return (on_first_host(job, variables, groups),)


def _as_root(job: LaunchedJob) -> tuple[str, ...]:
    user = job.cluster.probe.user or job.planned[job.places[0].name].ssh.user
    return ("--allow-run-as-root",) if user == "root" else ()


def _network(job: LaunchedJob) -> list[tuple[str, ...]]:
    """Return the options for the network of the ranks, and for ssh's port."""
    network, port = job.network or job.places[0].nic, ssh_port(job)
    parts = ("oob", "btl") if network else ()
    return [
        tuple(word for part in parts for word in ("--mca", f"{part}_tcp_if_include", network)),
        ("--mca", "plm_rsh_args", f"-p {port}") if port else (),
    ]
