"""What a rank table is compared with, and made from: the hosts' own word."""

from typing import TYPE_CHECKING

from preflight.cli.common import Session

if TYPE_CHECKING:
    from preflight.facts.types import ClusterFacts


def look(s: Session, pool: int, version: str, *, of_jobs: bool = False) -> "ClusterFacts":
    """The facts of the session's hosts; `version` 1.2 asks npu-smi besides, which takes a second or two; `of_jobs`:
    also what jobs would find where they run, with the rank table that they would read."""
    from preflight.facts.collect import collect

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
