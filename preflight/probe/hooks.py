"""What the probe asks of whoever runs it, and tells him. Each does nothing unless it is given."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from preflight.model.cluster import Host
from preflight.transport.types import Progress


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Hooks:
    """`announce` is told, before it starts, what is coming and how long it takes; `note`, what hosts have to say.

    Asked once the agents are ready, and before any device is touched, so that what it takes time for passes while the
    hosts import torch: `begin`, which of the hosts that are there to take; `ports_free`, which returns when the job's
    ports may be bound; `unreached`, the hosts that reach nobody, or are not reached: they are left out of groups of
    several hosts, which would only wait for them. `leaves`, before the pairs: behind which switch each device (host,
    index) is, as far as that is known.
    """

    progress: Callable[[Progress], None] = _nothing
    announce: Callable[[str], None] = _nothing
    note: Callable[[str], None] = _nothing
    begin: Callable[[Sequence[Host]], Sequence[Host]] = lambda present: present
    ports_free: Callable[[], object] = _nothing
    unreached: Callable[[], Collection[str]] = tuple
    leaves: Callable[[], Mapping[tuple[str, int], str]] = dict
