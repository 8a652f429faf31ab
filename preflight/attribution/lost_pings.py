"""Causes of lost pings, by counting what the pings have in common. Pure.

Pings are counted by pairs: two devices, or a device and a gateway, with the pings of both directions. A pair is bad
where a ping of it is lost. The widest thing whose pairs are all bad is named, once, and takes its pairs with it, so
that nothing else is named for the same pings. A device, a host or a gateway is named only if it fails with two others
at least; a single bad pair stays what it is, a link. Parts that do not reach each other are not counted: see
`ping_partitions`.

A gateway is asked because packets have to pass through it, not because it has to answer: many refuse ICMP or limit it.
So one that does not answer is only "silent" where devices reach others, and gone where they do not reach those behind
it. A device whose link is down is known to reach nobody: its lost pings are left out, as evidence and as complaint.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from preflight.attribution.ping_partitions import ReachablePart, ReachableParts
from preflight.attribution.ping_types import (
    Attachment,
    Attachments,
    Cause,
    Kind,
    Pair,
    PingEnd,
    end,
    is_direct,
    is_lost,
    own,
)
from preflight.facts.types import Ping

_NOWHERE = Attachment()
ByEnd = Mapping[PingEnd, Sequence[Pair]]


def causes(pings: Sequence[Ping], places: Attachments, lost: Callable[[Ping], bool] = is_lost) -> list[Cause]:
    """The causes of the lost ones of `pings`, but for those of devices whose link is down, widest first."""
    if not any(map(lost, pings)):
        return []
    return _Count(pings, places, lost).causes()


class _Count:
    """The pairs that are still to be explained; each step takes away those it explains."""

    def __init__(self, pings: Sequence[Ping], places: Attachments, lost: Callable[[Ping], bool]) -> None:
        self._lost = lost
        self._places = places
        self._pings: dict[Pair, list[Ping]] = defaultdict(list)
        self._could_not_ask = {own(ping) for ping in pings if ping.error}
        known: dict[tuple[str, str], PingEnd] = {}  # a peer's end by its words: many ping the same
        for ping in pings:
            if ping.sent and not ping.error:
                one, words = own(ping), (ping.peer, ping.address)
                other = known.get(words) or known.setdefault(words, end(ping))
                self._pings[(one, other) if one < other else (other, one)].append(ping)
        bad = {pair for pair, those in self._pings.items() if any(map(lost, those))}
        down = {pair for pair in bad if any(self._place(it).down for it in pair)}
        self._bad = bad - down
        self._left = dict.fromkeys(pair for pair in self._pings if pair not in down)
        self._ends: dict[PingEnd, list[Pair]] | None = None  # what `_by_end` says, as long as it is true
        self._parts: ReachableParts | None = (
            None  # of devices; known where some are well, and have no answer of each other
        )

    def causes(self) -> list[Cause]:
        steps = (
            self._gateways,
            self._partitions,
            self._gateways_of_some,
            self._fabric,
            self._rails,
            self._hosts,
            self._devices,
            self._between_leaves,
            self._between_hosts,
            self._links,
        )
        found: list[Cause] = []
        for step in steps:
            if self._bad & self._left.keys():
                found += step()
        return found

    def _cause(
        self, kind: Kind, pairs: Collection[Pair], *names: str, device: int | None = None, part: bool = False
    ) -> Cause:
        for pair in pairs:
            self._left.pop(pair, None)
        self._ends = None
        pings = [ping for pair in pairs for ping in self._pings[pair]]
        return Cause(kind, names, device, tuple(filter(self._lost, pings)), len(pings), part=part)

    def _place(self, device: PingEnd) -> Attachment:
        return self._places.get(device, _NOWHERE)

    def _all_bad(self, pairs: Collection[Pair]) -> bool:
        return bool(pairs) and all(pair in self._bad for pair in pairs)

    def _by_end(self) -> ByEnd:
        """The pairs that are left, of each end."""
        if self._ends is None:
            self._ends = defaultdict(list)
            for pair in self._left:
                for one in pair:
                    self._ends[one].append(pair)
        return self._ends

    def _gateways(self) -> Iterator[Cause]:
        """Those that answer nobody, while their devices reach others: gone if nobody reaches who is behind them, silent
        otherwise."""
        by_end = self._by_end()
        found: list[tuple[Kind, str, list[Pair]]] = []
        for gateway, users, unheard in self._unheard(by_end):
            reaching = [device for device in unheard if self._reaches_somebody(device, by_end)]
            if len(reaching) > 1 and len(unheard) == len(users):
                behind = self._cut_off(unheard, by_end, least=2)
                found.append(("gateway" if behind else "silent", gateway.host, [*users.values(), *behind]))
        for kind, address, pairs in found:
            yield self._cause(kind, pairs, address)

    def _gateways_of_some(self) -> Iterator[Cause]:
        """Those that do not answer some devices which reach others. A device that alone reaches nobody behind it keeps
        its pairs: the trouble may be its own."""
        by_end = self._by_end()
        found = [
            (
                gateway.host,
                [
                    users[it]
                    for it in unheard
                    if self._reaches_somebody(it, by_end) and not self._cut_off([it], by_end, least=1)
                ],
            )
            for gateway, users, unheard in self._unheard(by_end)
        ]
        for address, pairs in found:
            if pairs:
                yield self._cause("silent", pairs, address)

    def _unheard(self, by_end: ByEnd) -> Iterator[tuple[PingEnd, dict[PingEnd, Pair], list[PingEnd]]]:
        """Each gateway with its users, and those of them who had not all its answers."""
        for gateway in sorted(one for one in by_end if one.is_gateway):
            users = {_other(pair, gateway): pair for pair in by_end[gateway]}
            yield gateway, users, [device for device, pair in users.items() if pair in self._bad]

    def _reaches_somebody(self, device: PingEnd, by_end: ByEnd) -> bool:
        """Another device; or, where it pinged none, its gateway with a part of the packets."""
        peers = [pair for pair in by_end[device] if not any(it.is_gateway for it in pair)]
        if peers:
            return not self._all_bad(peers)
        return any(ping.received for pair in by_end[device] for ping in self._pings[pair])

    def _cut_off(self, devices: Sequence[PingEnd], by_end: ByEnd, *, least: int) -> list[Pair]:
        """The pairs with devices of other subnets, if all are bad and `least` of these devices reach somebody else."""
        behind: dict[Pair, PingEnd] = {}
        for device in devices:
            own = self._place(device).subnet
            for pair in by_end[device]:
                other = _other(pair, device)
                subnet = self._place(other).subnet
                if own and subnet and own != subnet:
                    behind[pair] = other
        good = {far for far in behind.values() if not self._all_bad(by_end[far])}
        return list(behind) if self._all_bad(behind) and len(good) >= least else []

    @cached_property
    def _well(self) -> set[PingEnd]:
        """Devices that reach another one."""
        return {
            one
            for one, pairs in self._by_end().items()
            if not one.is_gateway and any(is_direct(pair) and self._reached(pair) for pair in pairs)
        }

    def _reached(self, pair: Pair) -> bool:
        """Some packet came back."""
        return pair not in self._bad or any(ping.received for ping in self._pings[pair])

    def _silent(self) -> list[Pair]:
        """Devices that are well with others, and have no answer of each other."""
        return [
            pair
            for pair in self._left
            if pair in self._bad and is_direct(pair) and self._well.issuperset(pair) and not self._reached(pair)
        ]

    def _partitions(self) -> Iterator[Cause]:
        """Parts that reach themselves and not each other: of the hosts, on all rails; then of the devices."""
        for by_host in (True, False):
            silent = self._silent()
            if not silent:
                return
            lost = {pair: len(self._pings[pair]) for pair in silent}
            reached = (pair for pair in self._left if is_direct(pair) and self._reached(pair))
            parts = ReachableParts((lambda device: device.host) if by_host else (lambda device: device), lost, reached)
            self._parts = None if by_host else parts
            found = [(part, [pair for pair in silent if part.ends_at(pair)]) for part in parts.named()]
            found = [(part, [*pairs, *self._gateways_beyond(part)]) for part, pairs in found]
            for part, pairs in found:
                yield self._partition(part, pairs)

    def _partition(self, part: ReachablePart, pairs: Collection[Pair]) -> Cause:
        devices = {device for device in self._well if part.has(device)}
        rails = {device.device for device in devices}
        cause = self._cause("partition", pairs, *self._leaves(devices), device=rails.pop() if len(rails) == 1 else None)
        members, others = (tuple(map(str, sorted(them))) for them in (part.members, part.others))
        return replace(cause, members=members, others=others)

    def _gateways_beyond(self, part: ReachablePart) -> Iterator[Pair]:
        """The pairs of one side with gateways that answer nobody there, and some of the other side."""
        asking: dict[PingEnd, list[tuple[PingEnd, Pair]]] = defaultdict(list)
        answered: dict[PingEnd, list[PingEnd]] = defaultdict(list)
        for pair in self._left:
            if not is_direct(pair):
                gateway, device = pair if pair[0].is_gateway else pair[::-1]
                if self._reached(pair):
                    answered[gateway].append(device)
                elif device in self._well:
                    asking[gateway].append((device, pair))
        for here, there in ((part.has, part.is_without), (part.is_without, part.has)):
            for gateway, those in asking.items():
                if any(map(there, answered[gateway])) and not any(map(here, answered[gateway])):
                    yield from (pair for device, pair in those if here(device))

    def _leaves(self, devices: set[PingEnd]) -> list[str]:
        """The leaves behind which just these devices are, of those that reach anybody."""
        inside = {self._place(device).leaf for device in devices}
        outside = {self._place(device).leaf for device in self._well - devices}
        return [] if "" in inside or inside & outside else sorted(inside)

    def _fabric(self) -> Iterator[Cause]:
        rails = {one.device for pair in self._left for one in pair if not one.is_gateway}
        if len(rails) > 1 and self._all_bad(self._left):
            yield self._cause("fabric", tuple(self._left))

    def _rails(self) -> Iterator[Cause]:
        """All pairs along a rail: three of them, or fewer where the gateways are lost as well. If only some of its
        devices reach their gateways, the others are at fault, not the rail."""
        along: dict[int, list[Pair]] = defaultdict(list)
        up: dict[int, list[Pair]] = defaultdict(list)
        across: dict[int, list[Pair]] = defaultdict(list)
        for one, other in self._left:
            rails = {it.device for it in (one, other) if not it.is_gateway}
            kind = across if len(rails) > 1 else up if one.is_gateway or other.is_gateway else along
            for rail in rails:
                kind[rail].append((one, other))
        for rail, pairs in sorted(along.items()):
            bad = [pair for pair in up[rail] if pair in self._bad]
            same = len(bad) in (0, len(up[rail]))
            if self._all_bad(pairs) and same and len(pairs) + len(bad) >= 3:
                more = across[rail] if self._all_bad(across[rail]) else []
                yield self._cause("rail", [*pairs, *bad, *more], device=rail)

    def _hosts(self) -> Iterator[Cause]:
        """All pairs of a host, of two devices at least, with two other hosts or gateways; one is enough if the host
        could not ping itself."""
        of_host: dict[str, list[Pair]] = defaultdict(list)
        for pair in self._left:
            for host in {one.host for one in pair if not one.is_gateway}:
                of_host[host].append(pair)
        named = []
        for host, pairs in of_host.items():
            ends = {one for pair in pairs for one in pair}
            mine = {one for one in ends if one.host == host}
            others = {one.host for one in ends - mine}
            if self._all_bad(pairs) and len(mine) > 1 and (len(others) > 1 or mine <= self._could_not_ask):
                named.append((host, pairs))
        for host, pairs in named:
            met = {one.host for pair in pairs for one in pair}
            yield self._cause("host", pairs, host, part=any(other not in met for other, _ in named))

    def _devices(self) -> Iterator[Cause]:
        """Two peers at least, and all are lost."""
        by_end = self._by_end()
        named = [
            (one, pairs)
            for one, pairs in sorted(by_end.items())
            if not one.is_gateway and len(pairs) > 1 and self._all_bad(pairs)
        ]
        on_rail: dict[int, set[PingEnd]] = defaultdict(set)
        for one, _ in named:
            on_rail[one.device].add(one)
        for one, pairs in named:
            met = {it for pair in pairs for it in pair}
            yield self._cause("device", pairs, one.host, device=one.device, part=not on_rail[one.device] <= met)

    def _between_leaves(self) -> Iterator[Cause]:
        """Bad pairs of two leaves, of two devices on each side at least, where no bad pair is left inside either. They
        are no partition: some reach each other (one cable of several), or all do through a third leaf."""
        across: dict[tuple[str, str], list[Pair]] = defaultdict(list)
        inside = set()
        for pair in self._left:
            one, other = (self._place(it).leaf for it in pair)
            if one and other and one != other:
                across[min(one, other), max(one, other)].append(pair)
            elif pair in self._bad:
                inside |= {one, other}
        for leaves, pairs in sorted(across.items()):
            bad = [pair for pair in pairs if pair in self._bad]
            sides = [{one for pair in bad for one in pair if self._place(one).leaf == leaf} for leaf in leaves]
            if min(map(len, sides)) > 1 and not inside & set(leaves):
                yield self._cause("leaves", pairs, *leaves)

    def _between_hosts(self) -> Iterator[Cause]:
        """All pairs of two hosts, two at least, both of which reach others."""
        between: dict[tuple[str, str], list[Pair]] = defaultdict(list)
        for one, other in self._left:
            if not one.is_gateway and not other.is_gateway and one.host != other.host:
                between[one.host, other.host].append((one, other))
        for hosts, pairs in sorted(between.items()):
            if len(pairs) > 1 and self._all_bad(pairs):
                yield self._cause("hosts", pairs, *hosts)

    def _links(self) -> Iterator[Cause]:
        for pair in [pair for pair in self._left if pair in self._bad]:
            part = self._parts is not None and self._well.issuperset(pair) and not self._parts.joined(*pair)
            yield self._cause("link", [pair], *map(str, pair), part=part)


def _other(pair: Pair, one: PingEnd) -> PingEnd:
    return pair[1] if pair[0] == one else pair[0]
