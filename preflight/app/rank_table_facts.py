"""Facts of live hosts, from which rank tables are built and with which they are compared."""

from preflight.app.session import Session
from preflight.facts.collect import collect
from preflight.facts.types import ClusterFacts


def look(s: Session, pool: int, version: str, *, of_jobs: bool = False) -> ClusterFacts:
    """Collect the facts of the session's hosts.

    With `version` 1.2, npu-smi is run as well, which takes a second or two. `of_jobs` adds what jobs find where they
    run, with the rank table that they read.
    """
    sections = ("os", "network", "hccn", *(("chips",) if version == "1.2" else ()), *(("job",) if of_jobs else ()))
    return collect(
        s.cluster,
        s.hosts,
        s.transport,
        progress=s.progress,
        ports=s.cluster.ports,
        pool=pool,
        sections=sections,
        readings=("ip",),
        deep=version == "1.2" or of_jobs,
    )
