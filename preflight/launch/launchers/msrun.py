"""MindSpore's msrun: one command for each host (mindspore.cn, "msrun launching").

Its commands follow its documents, and were never run by us. It asks `ip -j addr` whether the master's address is this
host's. Hosts with different numbers of devices get no node_rank, and MindSpore numbers the ranks by itself.
"""

from preflight.launch.job import HostLaunch, JobHost, LaunchedJob
from preflight.launch.launchers.each_host import on_each_host
from preflight.model.errors import UsageError


def launches(job: LaunchedJob) -> tuple[HostLaunch, ...]:
    """Return a command for each host.

    Raises UsageError for a program that is no Python file, and for ranks that would differ from the rank table's.
    """
    if job.rank_table and not job.even:
        raise UsageError("msrun assigns ranks itself if hosts have different numbers of devices. Use shell")
    if job.program[0] == "-m" or not job.is_python:
        raise UsageError(f"msrun starts only Python files, not {job.program[0]}")
    return on_each_host(job, _groups)


def _groups(job: LaunchedJob, place: JobHost, node_rank: str) -> list[tuple[str, ...]]:
    return [
        ("msrun", "--worker_num", str(job.size), "--local_worker_num", str(len(place.devices))),
        ("--master_addr", job.master, "--master_port", str(job.port)),
        ("--node_rank", node_rank) if job.even else (),
        ("--join", "True", "--log_dir", "msrun_log"),
        job.program,
    ]
