"""Types for lost pings: their ends, where these are attached, and what they have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from preflight.facts.types import Ping

Kind = Literal["silent", "gateway", "partition", "fabric", "rail", "host", "device", "leaves", "hosts", "link"]
GATEWAY = -1  # in the place of a device's index


class PingEnd(NamedTuple):
    """A device, or a gateway by its address."""

    host: str
    device: int

    @property
    def is_gateway(self) -> bool:
        return self.device == GATEWAY

    def __str__(self) -> str:
        return f"gateway {self.host}" if self.is_gateway else f"{self.host}/{self.device}"


Pair = tuple[PingEnd, PingEnd]


def is_direct(pair: Pair) -> bool:
    """Of two devices."""
    return pair[0].device != GATEWAY != pair[1].device


@dataclass(frozen=True, slots=True)
class Attachment:
    """Where a device is: the switch it hangs on ("": not known), its subnet as address and mask (None: not known), and
    whether its link is known to be down."""

    leaf: str = ""
    subnet: tuple[int, int] | None = None
    down: bool = False


Attachments = Mapping[tuple[str, int], Attachment]  # by host and device


@dataclass(frozen=True)
class Cause:
    """`names`: of a host, of the host of a device, of two hosts or leaves, of the ends of a link; a gateway's address;
    of a partition the leaves, where it is all that is behind them. `device`: its index, or that of a rail. `lost`: the
    pings it explains, out of `total`; with a "gateway" that is gone also those through it.

    `members`, of a partition: hosts, or devices as "node01/3", that reach each other and none of the `others`. `part`:
    the cause may be a part that is cut off as well; too few pings were made to tell."""

    kind: Kind
    names: tuple[str, ...]
    device: int | None
    lost: tuple[Ping, ...]
    total: int
    members: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    part: bool = False


def end(ping: Ping) -> PingEnd:
    """Who was pinged."""
    host, slash, device = ping.peer.rpartition("/")
    return PingEnd(host, int(device)) if slash and device.isdecimal() else PingEnd(ping.address, GATEWAY)


def own(ping: Ping) -> PingEnd:
    return PingEnd(ping.host, ping.device)


def is_lost(ping: Ping) -> bool:
    """Some of it or all."""
    return not ping.error and ping.received < ping.sent
