"""Counters of the hosts' RDMA ports, read before and after the probe's tests."""

from collections.abc import Sequence

from preflight.app.background import FOR_EVER, in_background, result_by
from preflight.app.probing.probed_devices import ProbedDevices
from preflight.app.session import Session
from preflight.checks.engine.run import NotRun
from preflight.facts.link_counts import LinkCounts, Section, between
from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Host
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


def after_tests(s: Session, tests: ProbedDevices, until: float = FOR_EVER) -> LinkCounts | NotRun:
    """Return the counts since before the tests, read again by `until`; or why the counters do not apply."""
    backend = tests.backend
    if backend not in _READINGS:
        return NotRun(f"{backend} does not use RDMA")
    if not tests.before.hosts:
        return NotRun("the time budget ran out before the counters could be read the first time")
    ways = [view.way.between_hosts for view in ways_between(tests.result.observations) if view.way]
    if backend == "nccl" and ways and set(ways) == {"Socket"}:
        return NotRun("NCCL used sockets")
    collected, readings, section = _READINGS[backend]
    reading = in_background(lambda: _read(s, tests.hosts, collected, readings))
    after = result_by(reading, until, None)
    if after is None:
        return NotRun("the time budget ran out before the counters could be read again")
    return between(tests.before, after, [host.name for host in tests.hosts], section)


def _read(s: Session, hosts: Sequence[Host], section: str, readings: Sequence[str]) -> ClusterFacts:
    return s.collect(hosts, sections=(section,), readings=readings, deep=True, quiet=True)
