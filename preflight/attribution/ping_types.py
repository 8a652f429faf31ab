"""Types for lost pings: their ends, the attachments of these, and causes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from preflight.model.ping import Ping

Kind = Literal["silent", "gateway", "partition", "fabric", "rail", "host", "device", "leaves", "hosts", "link"]
GATEWAY = -1  # instead of a device's index


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
    """Return whether both ends are devices."""
    return pair[0].device != GATEWAY != pair[1].device


@dataclass(frozen=True, slots=True)
class Attachment:
    """Attachment of a device to the network.

    `leaf` is the switch that it hangs on, "" if not known. `subnet` is address and mask, None if not known. `down`: its
    link is known to be down.
    """

    leaf: str = ""
    subnet: tuple[int, int] | None = None
    down: bool = False


Attachments = Mapping[tuple[str, int], Attachment]  # by host and device


@dataclass(frozen=True)
class Cause:
    """A cause of lost pings.

    `names`: a host, the host of a device, two hosts or leaves, or the ends of a link. For a gateway it is the address.
    For a partition it is the leaves, if the part is all that is behind them. `device`: the device's index, or that of a
    rail. `lost`: the pings that it explains, out of `total`, in which `answered` of `packets` came back. If a "gateway"
    is gone, the pings through it are among them. `peers`: the other ends of a device's pings.

    `members` of a partition: hosts, or devices as "node01/3", that reach each other and none of the `others`. `part`:
    the cause may also be a part that is cut off, but there were too few pings to decide.
    """

    kind: Kind
    names: tuple[str, ...]
    device: int | None
    lost: tuple[Ping, ...]
    total: int
    members: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    part: bool = False
    packets: int = 0
    answered: int = 0
    peers: int = 0

    @property
    def objects(self) -> str:
        """The names in one phrase."""
        return " and ".join(self.names)

    @property
    def unanswered(self) -> bool:
        """True if no packet of the lost pings came back."""
        return not any(ping.received for ping in self.lost)


def end(ping: Ping) -> PingEnd:
    """Return the end that was pinged."""
    host, slash, device = ping.peer.rpartition("/")
    return PingEnd(host, int(device)) if slash and device.isdecimal() else PingEnd(ping.address, GATEWAY)


def own(ping: Ping) -> PingEnd:
    return PingEnd(ping.host, ping.device)


def is_lost(ping: Ping) -> bool:
    """Return whether some or all packets of the ping were lost."""
    return not ping.error and ping.received < ping.sent
