"""Before a device gets an address, somebody who could reach it asks whether it is taken. Pure; the pings are facts'."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface

from preflight.facts.types import ClusterFacts, Hccn, HostFacts, Ping
from preflight.model.change import Change, Kind, Plan


@dataclass(frozen=True)
class _Device:
    """A device that has an address and a link now."""

    host: str
    index: int
    address: IPv4Interface

    def __str__(self) -> str:
        return f"{self.host}/{self.index}"


def questions(plan: Plan, facts: ClusterFacts) -> tuple[tuple[Ping, ...], tuple[str, ...]]:
    """The pings to send before the plan is carried out, and what has to be said about addresses nobody can ask for.

    Each new address is asked for once, by a device in its subnet: the same rail's on another host where there is one.
    """
    addressed = list(_addressed(facts))
    pings: list[Ping] = []
    asked: Counter[_Device] = Counter()
    unasked: list[str] = []
    for change, new in _new_addresses(plan, addressed):
        able = [device for device in addressed if new.ip in device.address.network]
        if not able:
            unasked.append(f"{change.host}/{change.device}")
            continue
        asker = min(able, key=lambda d: (d.index != change.device, d.host == change.host, asked[d], d.host, d.index))
        asked[asker] += 1  # one after the other there, so the next question goes to another
        pings.append(Ping(asker.host, asker.index, str(new.ip), f"{change.host}/{change.device}"))
    if not unasked:
        return tuple(pings), ()
    more = f" and {len(unasked) - 4} more" if len(unasked) > 4 else ""
    note = (
        f"nobody could be asked whether the new addresses of {', '.join(unasked[:4])}{more} are free: "
        "no device has an address in their subnets yet"
    )
    return tuple(pings), (note,)


def _new_addresses(plan: Plan, addressed: Iterable[_Device]) -> Iterator[tuple[Change, IPv4Interface]]:
    """Changes that give a device an address it does not hold yet, neither when the plan was made nor now; another mask
    alone asks nothing of anybody."""
    held = {(device.host, device.index): device.address.ip for device in addressed}
    for change in plan.changes:
        before, after = _address(change, change.before), _address(change, change.after)
        known = {before.ip} if before else set()
        if after and after.ip not in known | {held.get((change.host, change.device or 0))}:
            yield change, after


def _address(change: Change, value: str | None) -> IPv4Interface | None:
    """The address in a change's value; None where the change gives none."""
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
                    with suppress(ValueError):  # a mask that is none: nobody to ask
                        address = IPv4Interface(f"{device.address.value}/{device.netmask.value}")
                        yield _Device(name, device.index, address)


def taken(pings: Sequence[Ping], facts: ClusterFacts) -> tuple[str, ...]:
    """A sentence for each new address that answered: who asked, what answered, and who holds it as far as is known."""
    holders = {device.address.ip: device for device in _addressed(facts)}
    return tuple(_answered(ping, holders) for ping in pings if ping.received)


def _answered(ping: Ping, holders: dict[IPv4Address, _Device]) -> str:
    holder = holders.get(IPv4Address(ping.address))
    who = f"device {holder.index} of {holder.host} has it now" if holder else "nothing in this inventory has it"
    return f"{ping.address}, planned for {ping.peer}, is taken: it answers a ping from {ping.host}/{ping.device}; {who}"


def not_asked(pings: Sequence[Ping]) -> tuple[str, ...]:
    """A sentence for each question that could not be put."""
    return tuple(
        f"whether {ping.address} is free could not be asked from {ping.host}/{ping.device}: {ping.error}"
        for ping in pings
        if ping.error
    )
