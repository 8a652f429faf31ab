"""Repeated pings where packets were lost, so that a loss is a rate and not a coincidence. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.attribution.ping_types import PingEnd, end, is_lost, own
from preflight.model.ping import Ping

# Three packets each. After the first repeats, most pings of a device that loses 10 % or more have lost some.
TIMES = (2, 5)
MOST = 400  # pings to repeat; if more are lost, they have an obvious cause in common


def repeats(results: Sequence[Ping], times: int) -> list[Ping]:
    """Return pings to send again, each `times` times: those of both ends of every ping that lost packets.

    The other partners of an end show which end loses the packets. A ping without any answer is not repeated, since it
    would take until its timeout and show nothing new. Of the pings of one device that lost packets only the first is
    repeated: the others are known to lose some, and the device would wait for every lost packet.
    """
    ends = set().union(*map(_ends, filter(is_lost, results)))
    near: list[Ping] = []
    with_loss: set[tuple[str, PingEnd]] = set()
    for ping in results:
        if not ping.received or not ends & _ends(ping):
            continue
        sender = ping.purpose, own(ping)
        if is_lost(ping) and sender in with_loss:
            continue
        near.append(ping)
        if is_lost(ping):
            with_loss.add(sender)
    return [replace(ping, sent=0, received=0, milliseconds=None) for ping in near] * times if len(near) <= MOST else []


def _ends(ping: Ping) -> set[tuple[str, PingEnd]]:
    """Return the devices at both ends, with the ping's purpose. Pings over HCCS, between dies, are not repeated."""
    if ping.purpose == "hccs":
        return set()
    return {(ping.purpose, ping_end) for ping_end in (own(ping), end(ping)) if not ping_end.is_gateway}


def with_repeats(results: Iterable[Ping], repeated: Iterable[Ping]) -> tuple[Ping, ...]:
    """Return the results with the packets of the repeated pings added, as far as these have a result."""
    packets: dict[tuple[object, ...], tuple[int, int]] = {}
    for ping in repeated:
        if not ping.error:
            sent, received = packets.get(_key(ping), (0, 0))
            packets[_key(ping)] = sent + ping.sent, received + ping.received
    return tuple(_with(ping, *packets.get(_key(ping), (0, 0))) for ping in results)


def _key(ping: Ping) -> tuple[object, ...]:
    return ping.host, ping.device, ping.address, ping.purpose, ping.size


def _with(ping: Ping, sent: int, received: int) -> Ping:
    return replace(ping, sent=ping.sent + sent, received=ping.received + received)
