"""Rules of jobs that launch and exec share."""

from collections.abc import Sequence

from preflight.launch.job import FOR_MASTERS, JobHost, JobLauncher
from preflight.model.cluster import Cluster
from preflight.model.errors import UsageError
from preflight.ranktable.device_sets import device_set_problems


def refuse_port(port: int | None) -> None:
    """Raise UsageError for a --master-port out of range."""
    if port is not None and not 1024 <= port <= 65535:
        raise UsageError(f"--master-port {port} is out of range: 1024 to 65535")


def refuse_job(cluster: Cluster, port: int, places: Sequence[JobHost]) -> None:
    """Raise UsageError for a job that would fail on every host, before any host is contacted."""
    if port in cluster.ports and (purpose := cluster.purpose(port)) not in FOR_MASTERS:
        raise UsageError(f"--master-port {port} is reserved for {purpose} in the inventory. Choose another port.")
    if cluster.probe.python.startswith("~"):
        raise UsageError(f"[probe] python = {cluster.probe.python!r}: ~ is not expanded. Write an absolute path.")
    if cluster.probe.backend == "hccl":
        sets = [((), place.name, place.devices) for place in places]
        for problem in device_set_problems(cluster.product, sets):
            if not problem.warning:
                raise UsageError(problem.text)


def master_port(cluster: Cluster, launcher: JobLauncher) -> int:
    """Return the inventory's port for the launcher or for masters, which is reserved and open."""
    by_name = {name: port for port, name in cluster.port_names.items()}
    own = by_name.get("mindspore") if launcher is JobLauncher.MSRUN else None
    return own or by_name.get("master", 29500)
