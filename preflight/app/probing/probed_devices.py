"""Devices after their tests, as causes and counters are collected for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Host
from preflight.model.ping import Ping
from preflight.model.rehearsal import Rehearsal
from preflight.probe.run import ProbeResult


@dataclass(frozen=True)
class ProbedDevices:
    """Hosts whose devices were tested over `backend`.

    `before` are facts from before the tests, and `pings` the results of pings shortly before, or None.
    """

    hosts: Sequence[Host]
    backend: str
    before: ClusterFacts
    result: ProbeResult
    rehearsal: Rehearsal
    pings: Sequence[Ping] | None = None
