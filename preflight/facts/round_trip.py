"""One host's round trip: the collector's answer, and the facts that today's parsers read from it. Pure.

An answer that was kept is read again the same way, see `documents/capture.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from preflight.facts import connections
from preflight.facts.answers import host as host_answer
from preflight.facts.answers.host import Sections, host_facts
from preflight.facts.types import HostFacts, Missing, Unreachable
from preflight.facts.unprivileged import without_root
from preflight.model.cluster import Cluster, Host, Product

Other = TypeVar("Other")


@dataclass(frozen=True)
class Answered:
    """`devices`: those that were asked for. `sent`, `received`: the controller's clock around the round trip.
    `refused`: why sudo did not make the collector root; None if it was not refused."""

    raw: Sections | Missing
    devices: tuple[int, ...]
    sent: float
    received: float
    refused: Unreachable | None = None


@dataclass(frozen=True)
class Seen:
    facts: HostFacts
    answered: Answered

    @property
    def raw(self) -> Sections | Missing:
        """The tools' own output that the facts were read from."""
        return self.answered.raw


def read(answered: Answered, product: Product, *, deep: bool) -> Seen:
    facts = host_facts(
        answered.raw, product, answered.devices, sent=answered.sent, received=answered.received, deep=deep
    )
    return Seen(without_root(facts, answered.refused), answered)


def targets(cluster: Cluster, hosts: Sequence[Host]) -> dict[str, list[tuple[str, str]]]:
    """Host → the others, and where, whose ports it is to try."""
    return {host.name: list(connections.targets(cluster, hosts, host.name)) for host in hosts}


def with_arrivals(
    seen: Mapping[str, Seen | Other], targets: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, Seen | Other]:
    """What each host tried of the others, put where it arrived."""
    tried = {name: host_answer.tried(it.raw) for name, it in seen.items() if isinstance(it, Seen)}
    came = connections.arrived(tried, {name: [host for host, _ in attempts] for name, attempts in targets.items()})

    def whole(name: str, it: Seen) -> Seen:
        return replace(it, facts=replace(it.facts, arrivals=came[name])) if name in came else it

    return {name: whole(name, it) if isinstance(it, Seen) else it for name, it in seen.items()}
