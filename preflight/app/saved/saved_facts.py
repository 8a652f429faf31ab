"""Saved facts, as a check judges them."""

from typing import NamedTuple

from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Cluster, Host


class Saved(NamedTuple):
    """Saved facts, with their cluster, its hosts within --limit, and a note on their source."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    facts: ClusterFacts
    note: str
