"""Callbacks from the probe to its caller. By default each does nothing."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from preflight.model.cluster import Host
from preflight.transport.types import Progress


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Hooks:
    """Callbacks of a probe run.

    `announce` gets the rounds ahead and their duration, before they start. `note` gets messages of hosts for the user.

    Four are called before any device is used, while hosts import torch or after that. `ports_free` returns when the
    job's ports may be bound. `begin` returns which of the present hosts to take, and then `without` the devices (host,
    index) that are known to be faulty and are left out. `unreached` returns the hosts that reach no other, or that no
    other reaches. They are left out of groups of several hosts, which would only wait for them.

    `leaves`, called before the pairs, returns the switch of each device (host, index), as far as that is known.
    """

    progress: Callable[[Progress], None] = _nothing
    announce: Callable[[str], None] = _nothing
    note: Callable[[str], None] = _nothing
    begin: Callable[[Sequence[Host]], Sequence[Host]] = lambda present: present
    without: Callable[[], Collection[tuple[str, int]]] = tuple
    ports_free: Callable[[], object] = _nothing
    unreached: Callable[[], Collection[str]] = tuple
    leaves: Callable[[], Mapping[tuple[str, int], str]] = dict
