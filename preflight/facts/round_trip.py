"""One host's round trip: the collector's answer, and the facts that the parsers read from it. Pure.

A saved answer is read again in the same way, see `documents/capture.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from preflight.facts import connections
from preflight.facts.answers import host as host_answer
from preflight.facts.answers.host import HostAnswer, Sections, host_facts
from preflight.facts.types import HostFacts, Missing
from preflight.facts.unprivileged import without_root
from preflight.model.cluster import Cluster, Host, Product

Other = TypeVar("Other")


@dataclass(frozen=True)
class Seen:
    facts: HostFacts
    answered: HostAnswer

    @property
    def raw(self) -> Sections | Missing:
        """The tools' own output that the facts were read from."""
        return self.answered.raw


def read(answer: HostAnswer, product: Product, *, deep: bool) -> Seen:
    return Seen(without_root(host_facts(answer, product, deep=deep), answer.refused), answer)


def targets(cluster: Cluster, hosts: Sequence[Host]) -> dict[str, list[tuple[str, str]]]:
    """Return host → the other hosts that it connects to, with their addresses."""
    return {host.name: list(connections.targets(cluster, hosts, host.name)) for host in hosts}


def with_arrivals(
    hosts: Mapping[str, Seen | Other], targets: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, Seen | Other]:
    """Return the hosts with the connections that other hosts made to them."""
    attempts = {name: host_answer.tried(host.raw) for name, host in hosts.items() if isinstance(host, Seen)}
    arrivals = connections.arrivals(attempts, {name: [host for host, _ in places] for name, places in targets.items()})

    def whole(name: str, host: Seen) -> Seen:
        return replace(host, facts=replace(host.facts, arrivals=arrivals[name])) if name in arrivals else host

    return {name: whole(name, host) if isinstance(host, Seen) else host for name, host in hosts.items()}
