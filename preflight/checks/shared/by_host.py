"""Facts of a cluster check by host, each with a scribe of that host."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from preflight.checks.engine.registry import All, Here

T = TypeVar("T")


def by_host(scribe: All, facts: Mapping[str, T]) -> Iterator[tuple[Here, T]]:
    """Yield the scribe and the facts of each host."""
    for host in scribe.hosts:
        yield Here(scribe.check, scribe.cluster, host), facts[host.name]
