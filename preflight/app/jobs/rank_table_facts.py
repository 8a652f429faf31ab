"""Facts of live hosts, from which rank tables are built and with which they are compared."""

from preflight.app.session import Session
from preflight.facts.types import ClusterFacts


def rank_table_facts(s: Session, version: str, *, of_jobs: bool = False) -> ClusterFacts:
    """Collect the facts of the session's hosts.

    With `version` 1.2, npu-smi is run as well, which takes a second or two. `of_jobs` adds what jobs find where they
    run, with the rank table that they read.
    """
    sections = ("os", "network", "hccn", *(("chips",) if version == "1.2" else ()), *(("job",) if of_jobs else ()))
    return s.collect(sections=sections, readings=("ip",), deep=version == "1.2" or of_jobs)
