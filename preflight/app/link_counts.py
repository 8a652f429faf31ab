"""Counters of the hosts' RDMA ports, read before and after the probe's tests."""

from collections.abc import Iterable, Sequence

from preflight.app.background import FOR_EVER, in_background, result_by
from preflight.app.session import Session
from preflight.checks.engine.run import NotRun
from preflight.facts.collect import POOL, collect
from preflight.facts.link_counts import LinkCounts, Section, between
from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Host
from preflight.model.measure import Observation
from preflight.rules.nics.nccl_networks import ways_between

# Backend → collected section, its readings, and the section of the facts that it becomes.
_READINGS: dict[str, tuple[str, tuple[str, ...], Section]] = {
    "hccl": ("hccn", ("stat",), "nic"),
    "nccl": ("rdma", (), "rdma"),
}


def before_tests(s: Session, backend: str) -> ClusterFacts:
    """Read the NIC counters before anything is sent. Return no facts if the backend does not use RDMA.

    Over hccl, also read the speed of each port and the switch that it is connected to.
    """
    if backend not in _READINGS:
        return ClusterFacts({})
    section, readings, _ = _READINGS[backend]
    return _read(s, s.hosts, section, ("speed", "lldp", *readings) if readings else ())


def after_tests(
    s: Session,
    hosts: Sequence[Host],
    backend: str,
    before: ClusterFacts,
    observations: Iterable[Observation],
    *,
    until: float = FOR_EVER,
    pool: int = POOL,
) -> LinkCounts | NotRun:
    """Return the counts since `before`, read again by `until`; or why the counters do not apply."""
    if backend not in _READINGS:
        return NotRun(f"{backend} does not send over RDMA")
    if not before.hosts:
        return NotRun("the counters were not read before the tests, whose time was spent")
    ways = [view.way.between_hosts for view in ways_between(observations) if view.way]
    if backend == "nccl" and ways and set(ways) == {"Socket"}:
        return NotRun("NCCL sent over sockets")
    collected, readings, section = _READINGS[backend]
    looking = in_background(lambda: _read(s, hosts, collected, readings, pool))
    after = result_by(looking, until, None)
    if after is None:
        return NotRun("the time was spent before the counters could be read again")
    return between(before, after, [host.name for host in hosts], section)


def _read(s: Session, hosts: Sequence[Host], asked: str, readings: Sequence[str], pool: int = POOL) -> ClusterFacts:
    return collect(
        s.cluster,
        hosts,
        s.transport,
        progress=None,
        ports=s.cluster.ports,
        pool=pool,
        sections=(asked,),
        readings=readings,
        deep=True,
    )
