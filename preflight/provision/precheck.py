"""Pings that show whether a new device address is taken, sent before it is set. Pure; preflight/facts sends them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface

from preflight.facts.types import ClusterFacts, Hccn, HostFacts
from preflight.model.change import Change, Kind, Plan
from preflight.model.ping import Ping


@dataclass(frozen=True)
class _Device:
    """A device that has an address and a link now."""

    host: str
    index: int
    address: IPv4Interface

    def __str__(self) -> str:
        return f"{self.host}/{self.index}"


def questions(plan: Plan, facts: ClusterFacts) -> tuple[tuple[Ping, ...], tuple[str, ...]]:
    """Return the pings to send before the plan is carried out, and notes about addresses that no device can ping.

    Each new address is pinged once, by a device in its subnet: if possible by the same rail's device on another host.
    """
    addressed = list(_addressed(facts))
    pings: list[Ping] = []
    ping_counts: Counter[_Device] = Counter()
    unreachable: list[str] = []
    for change, new in _new_addresses(plan, addressed):
        candidates = [device for device in addressed if new.ip in device.address.network]
        if not candidates:
            unreachable.append(f"{change.host}/{change.device}")
            continue
        source = min(
            candidates, key=lambda d: (d.index != change.device, d.host == change.host, ping_counts[d], d.host, d.index)
        )
        ping_counts[source] += 1  # a device sends its pings one after the other, so the next goes to another device
        pings.append(Ping(source.host, source.index, str(new.ip), f"{change.host}/{change.device}"))
    if not unreachable:
        return tuple(pings), ()
    suffix = f" and {len(unreachable) - 4} more" if len(unreachable) > 4 else ""
    note = (
        f"cannot check whether the new addresses of {', '.join(unreachable[:4])}{suffix} are free, "
        "since no device has an address in their subnets yet"
    )
    return tuple(pings), (note,)


def _new_addresses(plan: Plan, addressed: Iterable[_Device]) -> Iterator[tuple[Change, IPv4Interface]]:
    """Yield changes that give a device an address that it neither held when the plan was made nor holds now.

    Another mask alone needs no ping.
    """
    current_addresses = {(device.host, device.index): device.address.ip for device in addressed}
    for change in plan.changes:
        before, after = _address(change, change.before), _address(change, change.after)
        planned_before = {before.ip} if before else set()
        if after and after.ip not in planned_before | {current_addresses.get((change.host, change.device or 0))}:
            yield change, after


def _address(change: Change, value: str | None) -> IPv4Interface | None:
    """Return the address in a change's value, None if the change sets none."""
    if change.kind is Kind.DEVICE_RECOVERY:
        words = (value or "").split()
        value = dict(zip(words[::2], words[1::2], strict=False)).get("address", "none")
    elif change.kind is not Kind.DEVICE_ADDRESS:
        return None
    return IPv4Interface(value) if value and value != "none" else None


def _addressed(facts: ClusterFacts) -> Iterator[_Device]:
    for name, host in facts.hosts.items():
        if isinstance(host, HostFacts) and isinstance(host.hccn, Hccn):
            for device in host.hccn.devices:
                if device.address.value and device.netmask.value and device.link.value == "UP":
                    with suppress(ValueError):  # an invalid mask: no device to ask
                        address = IPv4Interface(f"{device.address.value}/{device.netmask.value}")
                        yield _Device(name, device.index, address)


def taken(pings: Sequence[Ping], facts: ClusterFacts) -> tuple[str, ...]:
    """Return a sentence for each new address that answered: from where, and which device holds it if that is known."""
    holders = {device.address.ip: device for device in _addressed(facts)}
    return tuple(_answered(ping, holders) for ping in pings if ping.received)


def _answered(ping: Ping, holders: dict[IPv4Address, _Device]) -> str:
    holder = holders.get(IPv4Address(ping.address))
    owner = f"device {holder.index} of {holder.host}" if holder else "no device in this inventory"
    return (
        f"{ping.address}, planned for {ping.peer}, is in use: it answers a ping from {ping.host}/{ping.device}. "
        f"Current owner: {owner}."
    )


def not_asked(pings: Sequence[Ping]) -> tuple[str, ...]:
    """Return a sentence for each ping that could not be sent."""
    return tuple(
        f"cannot check from {ping.host}/{ping.device} whether {ping.address} is free: {ping.error}"
        for ping in pings
        if ping.error
    )
