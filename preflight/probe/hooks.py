"""What the probe asks of whoever runs it, and tells him. Each does nothing unless it is given."""

from collections.abc import Callable, Mapping, Sequence
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
    ports may be bound; `cut_off`, whether hosts do not reach each other: groups of several, which would only wait, are
    not run then. `leaves`, before the pairs: behind which switch each device (host, index) is, as far as that is known.
    """

    progress: Callable[[Progress], None] = _nothing
    announce: Callable[[str], None] = _nothing
    note: Callable[[str], None] = _nothing
    begin: Callable[[Sequence[Host]], Sequence[Host]] = lambda present: present
    ports_free: Callable[[], object] = _nothing
    cut_off: Callable[[], bool] = lambda: False
    leaves: Callable[[], Mapping[tuple[str, int], str]] = dict
