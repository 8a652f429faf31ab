"""Causes of lost pings, by what the lost pings have in common. Pure.

Pings are counted by pairs: two devices, or a device and a gateway, with the pings of both directions. A pair is bad if
a ping of it is lost. The widest object that has only bad pairs is a cause. It takes its pairs with it, so that no other
cause is given for the same pings. A device, a host or a gateway is a cause only if it fails with at least two others. A
single bad pair stays a link. Parts that do not reach each other are not counted: see `ping_partitions`.

A device that loses a few packets may have pairs that lost none by chance. So it is also a cause if its bad pairs have
nothing else in common, and if that chance is not too small.

A gateway is pinged because packets have to pass through it, not because it has to answer: many refuse ICMP or limit it.
So a gateway that does not answer is only "silent" if its devices reach others. It is gone if they do not reach those
behind it. A device with its link down is known to reach no other. Its lost pings are left out, as evidence and as
complaint.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from math import exp, log

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
from preflight.model.ping import Ping

_CHANCE = 0.001  # the least probability of what the pairs of one lossy device lost
_ONCE = 3  # packets of a ping that was not repeated
_NOWHERE = Attachment()
ByEnd = Mapping[PingEnd, Sequence[Pair]]


def causes(pings: Sequence[Ping], places: Attachments) -> list[Cause]:
    """Return the causes of the lost ones of `pings`, widest first, except for devices with their link down."""
    if not any(map(is_lost, pings)):
        return []
    return _Count(pings, places).causes()


class _Count:
    """Pairs that are still to be explained. Each step takes away the pairs that it explains."""

    def __init__(self, pings: Sequence[Ping], places: Attachments) -> None:
        self._places = places
        self._pings = _by_pair(pings)
        self._unable_to_ping = {own(ping) for ping in pings if ping.error}
        bad_pairs = {pair for pair, pair_pings in self._pings.items() if any(map(is_lost, pair_pings))}
        pairs_down = {pair for pair in bad_pairs if any(self._place(device).down for device in pair)}
        self._bad = bad_pairs - pairs_down
        self._remaining = dict.fromkeys(pair for pair in self._pings if pair not in pairs_down)
        self._ends: dict[PingEnd, list[Pair]] | None = None  # the last result of `_by_end`, None if that is outdated
        self._parts: ReachableParts | None = None  # of devices; None if all that reach others reach each other

    def causes(self) -> list[Cause]:
        steps = (
            self._gateways,
            self._partitions,
            self._gateways_of_some,
            self._fabric,
            self._rails,
            self._hosts,
            self._devices,
            self._devices_with_gateway,
            self._lossy_devices,
            self._between_leaves,
            self._between_hosts,
            self._links,
        )
        causes: list[Cause] = []
        for step in steps:
            if self._bad & self._remaining.keys():
                causes += step()
        return causes

    def _cause(
        self, kind: Kind, pairs: Collection[Pair], *names: str, device: int | None = None, part: bool = False
    ) -> Cause:
        for pair in pairs:
            self._remaining.pop(pair, None)
        self._ends = None
        pings = [ping for pair in pairs for ping in self._pings[pair]]
        ends = _ends(pairs) - {PingEnd(name, device) for name in names if device is not None}
        answered = sum(ping.received for ping in pings)
        return Cause(
            kind,
            names,
            device,
            tuple(filter(is_lost, pings)),
            len(pings),
            part=part,
            packets=_packets(pings),
            answered=answered,
            peers=len(ends),
        )

    def _place(self, device: PingEnd) -> Attachment:
        return self._places.get(device, _NOWHERE)

    def _all_bad(self, pairs: Collection[Pair]) -> bool:
        return bool(pairs) and all(pair in self._bad for pair in pairs)

    def _by_end(self) -> ByEnd:
        """Return the pairs that are still to be explained, by their ends."""
        if self._ends is None:
            self._ends = defaultdict(list)
            for pair in self._remaining:
                for ping_end in pair:
                    self._ends[ping_end].append(pair)
        return self._ends

    def _gateways(self) -> Iterator[Cause]:
        """Yield gateways that answer no device, although their devices reach others.

        A gateway is gone if its devices do not reach those behind it, else it is silent.
        """
        by_end = self._by_end()
        gateways: list[tuple[Kind, str, list[Pair]]] = []
        for gateway, users, unheard in self._unheard(by_end):
            reaching = [device for device in unheard if self._reaches_another(device, by_end)]
            if len(reaching) > 1 and len(unheard) == len(users):
                behind = self._cut_off(unheard, by_end, least=2)
                gateways.append(("gateway" if behind else "silent", gateway.host, [*users.values(), *behind]))
        for kind, address, pairs in gateways:
            yield self._cause(kind, pairs, address)

    def _gateways_of_some(self) -> Iterator[Cause]:
        """Yield gateways that do not answer some devices, although these reach others.

        A device that alone reaches no device behind the gateway keeps its pairs, since the fault may be its own.
        """
        by_end = self._by_end()
        gateways = [
            (
                gateway.host,
                [
                    users[device]
                    for device in unheard
                    if self._reaches_another(device, by_end) and not self._cut_off([device], by_end, least=1)
                ],
            )
            for gateway, users, unheard in self._unheard(by_end)
        ]
        for address, pairs in gateways:
            if pairs:
                yield self._cause("silent", pairs, address)

    def _unheard(self, by_end: ByEnd) -> Iterator[tuple[PingEnd, dict[PingEnd, Pair], list[PingEnd]]]:
        """Yield each gateway with its users, and those of the users that lack some of its answers."""
        for gateway in sorted(ping_end for ping_end in by_end if ping_end.is_gateway):
            users = {_other(pair, gateway): pair for pair in by_end[gateway]}
            yield gateway, users, [device for device, pair in users.items() if pair in self._bad]

    def _reaches_another(self, device: PingEnd, by_end: ByEnd) -> bool:
        """Return whether a device reaches another one.

        If it pinged none, it has to reach its gateway, with a part of the packets at least.
        """
        peers = [pair for pair in by_end[device] if not any(ping_end.is_gateway for ping_end in pair)]
        if peers:
            return not self._all_bad(peers)
        return any(ping.received for pair in by_end[device] for ping in self._pings[pair])

    def _cut_off(self, devices: Sequence[PingEnd], by_end: ByEnd, *, least: int) -> list[Pair]:
        """Return the pairs with devices of other subnets, if all are bad and `least` of these devices reach others."""
        behind: dict[Pair, PingEnd] = {}
        for device in devices:
            own_subnet = self._place(device).subnet
            for pair in by_end[device]:
                peer = _other(pair, device)
                subnet = self._place(peer).subnet
                if own_subnet and subnet and own_subnet != subnet:
                    behind[pair] = peer
        good_peers = {peer for peer in behind.values() if not self._all_bad(by_end[peer])}
        return list(behind) if self._all_bad(behind) and len(good_peers) >= least else []

    @cached_property
    def _connected(self) -> set[PingEnd]:
        """Devices that reach another device."""
        return {
            device
            for device, pairs in self._by_end().items()
            if not device.is_gateway and any(is_direct(pair) and self._reached(pair) for pair in pairs)
        }

    def _reached(self, pair: Pair) -> bool:
        """Return whether any packet came back."""
        return pair not in self._bad or any(ping.received for ping in self._pings[pair])

    def _silent(self) -> list[Pair]:
        """Return the pairs of devices that reach others, and have no answer from each other."""
        return [
            pair
            for pair in self._remaining
            if pair in self._bad and is_direct(pair) and self._connected.issuperset(pair) and not self._reached(pair)
        ]

    def _partitions(self) -> Iterator[Cause]:
        """Yield parts that reach themselves and not each other: of the hosts, on all rails, then of the devices."""
        for by_host in (True, False):
            silent_pairs = self._silent()
            if not silent_pairs:
                return
            parts = self._reachable_parts(silent_pairs, by_host=by_host)
            self._parts = None if by_host else parts
            lost_by_part = [(part, self._lost_to(part, silent_pairs)) for part in parts.cut_off()]
            for part, pairs in lost_by_part:
                yield self._partition(part, pairs)

    def _reachable_parts(self, silent_pairs: Sequence[Pair], *, by_host: bool) -> ReachableParts:
        lost = {pair: len(self._pings[pair]) for pair in silent_pairs}
        reached_pairs = (pair for pair in self._remaining if is_direct(pair) and self._reached(pair))
        return ReachableParts((lambda device: device.host) if by_host else (lambda device: device), lost, reached_pairs)

    def _lost_to(self, part: ReachablePart, silent_pairs: Sequence[Pair]) -> list[Pair]:
        """Return the pairs that the partition explains."""
        return [*filter(part.ends_at, silent_pairs), *self._gateways_beyond(part)]

    def _partition(self, part: ReachablePart, pairs: Collection[Pair]) -> Cause:
        devices = {device for device in self._connected if part.has(device)}
        rails = {device.device for device in devices}
        cause = self._cause("partition", pairs, *self._leaves(devices), device=rails.pop() if len(rails) == 1 else None)
        members, other_members = (tuple(map(str, sorted(names))) for names in (part.members, part.others))
        return replace(cause, members=members, others=other_members)

    def _gateways_beyond(self, part: ReachablePart) -> Iterator[Pair]:
        """Yield the pairs of one side with gateways that answer no device there, and some of the other side."""
        answered, unanswered = self._gateway_answers()
        for is_near, is_far in ((part.has, part.is_without), (part.is_without, part.has)):
            for gateway, device_pairs in unanswered.items():
                if any(map(is_far, answered[gateway])) and not any(map(is_near, answered[gateway])):
                    yield from (pair for device, pair in device_pairs if is_near(device))

    def _gateway_answers(self) -> tuple[Mapping[PingEnd, list[PingEnd]], Mapping[PingEnd, list[tuple[PingEnd, Pair]]]]:
        """Return the devices that each gateway answers, and those that it does not although they reach others."""
        answered: dict[PingEnd, list[PingEnd]] = defaultdict(list)
        unanswered: dict[PingEnd, list[tuple[PingEnd, Pair]]] = defaultdict(list)
        for pair in self._remaining:
            if not is_direct(pair):
                gateway, device = pair if pair[0].is_gateway else pair[::-1]
                if self._reached(pair):
                    answered[gateway].append(device)
                elif device in self._connected:
                    unanswered[gateway].append((device, pair))
        return answered, unanswered

    def _leaves(self, devices: set[PingEnd]) -> list[str]:
        """Return the leaves that have just these devices behind them, of the devices that reach another one."""
        leaves_inside = {self._place(device).leaf for device in devices}
        leaves_outside = {self._place(device).leaf for device in self._connected - devices}
        return [] if "" in leaves_inside or leaves_inside & leaves_outside else sorted(leaves_inside)

    def _fabric(self) -> Iterator[Cause]:
        rails = {ping_end.device for pair in self._remaining for ping_end in pair if not ping_end.is_gateway}
        if len(rails) > 1 and self._all_bad(self._remaining):
            yield self._cause("fabric", tuple(self._remaining))

    def _rails(self) -> Iterator[Cause]:
        """Yield rails of which all pairs are bad: at least three, of which some may be pairs with gateways.

        If only some devices of a rail reach their gateways, the others are at fault, not the rail.
        """
        along, up, across = self._pairs_by_rail()
        for rail, pairs in sorted(along.items()):
            bad_gateway_pairs = [pair for pair in up[rail] if pair in self._bad]
            are_alike = len(bad_gateway_pairs) in (0, len(up[rail]))
            if self._all_bad(pairs) and are_alike and len(pairs) + len(bad_gateway_pairs) >= 3:
                crossing = across[rail] if self._all_bad(across[rail]) else []
                yield self._cause("rail", [*pairs, *bad_gateway_pairs, *crossing], device=rail)

    def _pairs_by_rail(self) -> tuple[Mapping[int, list[Pair]], ...]:
        """Return by rail the pairs of its devices, their pairs with gateways, and those with devices of other rails."""
        along, up, across = (defaultdict[int, list[Pair]](list) for _ in range(3))
        for pair in self._remaining:
            rails = {ping_end.device for ping_end in pair if not ping_end.is_gateway}
            kind = across if len(rails) > 1 else along if is_direct(pair) else up
            for rail in rails:
                kind[rail].append(pair)
        return along, up, across

    def _hosts(self) -> Iterator[Cause]:
        """Yield hosts of which all pairs are bad, of at least two devices, with at least two other hosts or gateways.

        One other is enough if none of the host's devices could ping.
        """
        of_host: dict[str, list[Pair]] = defaultdict(list)
        for pair in self._remaining:
            for host in {ping_end.host for ping_end in pair if not ping_end.is_gateway}:
                of_host[host].append(pair)
        suspects = [(host, pairs) for host, pairs in of_host.items() if self._is_bad_host(host, pairs)]
        for host, pairs in suspects:
            hosts_met = {ping_end.host for ping_end in _ends(pairs)}
            yield self._cause("host", pairs, host, part=any(name not in hosts_met for name, _ in suspects))

    def _is_bad_host(self, host: str, pairs: Collection[Pair]) -> bool:
        ends = _ends(pairs)
        own_ends = {ping_end for ping_end in ends if ping_end.host == host}
        other_hosts = {ping_end.host for ping_end in ends - own_ends}
        has_others = len(other_hosts) > 1 or own_ends <= self._unable_to_ping
        return self._all_bad(pairs) and len(own_ends) > 1 and has_others

    def _devices(self) -> Iterator[Cause]:
        """Yield devices of which all pairs are bad, with at least two peers."""
        yield from self._suspects(self._by_end())

    def _devices_with_gateway(self) -> Iterator[Cause]:
        """Yield devices that reach their gateway, but none of at least two other devices."""
        direct = {ping_end: [pair for pair in pairs if is_direct(pair)] for ping_end, pairs in self._by_end().items()}
        yield from self._suspects(direct)

    def _suspects(self, pairs_by_end: ByEnd) -> Iterator[Cause]:
        suspects = [
            (device, pairs)
            for device, pairs in sorted(pairs_by_end.items())
            if not device.is_gateway and len(pairs) > 1 and self._all_bad(pairs)
        ]
        on_rail: dict[int, set[PingEnd]] = defaultdict(set)
        for device, _ in suspects:
            on_rail[device.device].add(device)
        for device, pairs in suspects:
            part = not on_rail[device.device] <= _ends(pairs)
            yield self._cause("device", pairs, device.host, device=device.device, part=part)

    def _between_leaves(self) -> Iterator[Cause]:
        """Yield two leaves with bad pairs between them, of at least two devices on each side, and none inside either.

        They are no partition: some of their devices reach each other (one cable of several), or all do through a third
        leaf.
        """
        across, leaves_bad_inside = self._pairs_by_leaves()
        for leaves, pairs in sorted(across.items()):
            bad_ends = _ends(pair for pair in pairs if pair in self._bad)
            sides = [{ping_end for ping_end in bad_ends if self._place(ping_end).leaf == leaf} for leaf in leaves]
            if min(map(len, sides)) > 1 and not leaves_bad_inside & set(leaves):
                yield self._cause("leaves", pairs, *leaves)

    def _pairs_by_leaves(self) -> tuple[Mapping[tuple[str, str], list[Pair]], set[str]]:
        """Return the pairs between each two leaves, and the leaves with bad pairs inside."""
        across: dict[tuple[str, str], list[Pair]] = defaultdict(list)
        leaves_bad_inside = set()
        for pair in self._remaining:
            near_leaf, far_leaf = (self._place(ping_end).leaf for ping_end in pair)
            if near_leaf and far_leaf and near_leaf != far_leaf:
                across[min(near_leaf, far_leaf), max(near_leaf, far_leaf)].append(pair)
            elif pair in self._bad:
                leaves_bad_inside |= {near_leaf, far_leaf}
        return across, leaves_bad_inside

    def _between_hosts(self) -> Iterator[Cause]:
        """Yield two hosts of which all pairs are bad, at least two, while both reach others."""
        between: dict[tuple[str, str], list[Pair]] = defaultdict(list)
        for near_end, far_end in self._remaining:
            if not near_end.is_gateway and not far_end.is_gateway and near_end.host != far_end.host:
                between[near_end.host, far_end.host].append((near_end, far_end))
        for hosts, pairs in sorted(between.items()):
            if len(pairs) > 1 and self._all_bad(pairs):
                yield self._cause("hosts", pairs, *hosts)

    def _lossy_devices(self) -> Iterator[Cause]:
        """Yield devices that lose packets of at least two pairs, if their other pairs may have lost none by chance.

        None is yielded if further pairs between the same leaves lose packets. The fault is then between the leaves.
        """
        suspects = self._lossy_suspects()
        explained = set(chain.from_iterable(suspects.values()))
        other_bad_pairs = (pair for pair in self._bad & self._remaining.keys() if is_direct(pair))
        lossy_leaves = {self._leaves_of(pair) for pair in other_bad_pairs if pair not in explained} - {None}
        by_end = self._by_end()
        for device, pairs in suspects.items():
            if not lossy_leaves.intersection(map(self._leaves_of, pairs)):
                remaining = [pair for pair in by_end[device] if pair in self._remaining]
                yield self._cause("device", remaining, device.host, device=device.device)

    def _lossy_suspects(self) -> dict[PingEnd, set[Pair]]:
        """Return devices that may be lossy, with the bad pairs that each explains.

        A device has more bad pairs than each of its partners in these. Otherwise it is unclear which of them is lossy.
        If a partner has as many, but at least three, both are.
        """
        bad = self._bad_of_devices()
        suspects: dict[PingEnd, set[Pair]] = {}
        explained: set[Pair] = set()
        for device in sorted(bad, key=lambda device: (-len(bad[device]), device)):
            pairs = bad[device] - explained
            most_of_others = max((len(bad[_other(pair, device)] - explained) for pair in pairs), default=0)
            enough = most_of_others if most_of_others > 2 else most_of_others + 1
            if len(pairs) >= max(2, enough) and self._may_be_lossy(device, explained):
                suspects[device] = pairs
                explained |= pairs
        return suspects

    def _bad_of_devices(self) -> Mapping[PingEnd, set[Pair]]:
        """Return the bad pairs of each device with other devices, without those that no packet passes."""
        bad: dict[PingEnd, set[Pair]] = defaultdict(set)
        for pair in self._bad & self._remaining.keys():
            if is_direct(pair) and self._reached(pair):
                bad[pair[0]].add(pair)
                bad[pair[1]].add(pair)
        return bad

    def _may_be_lossy(self, device: PingEnd, explained: Collection[Pair]) -> bool:
        """Return whether one loss rate explains all pairs of a device: those that lose packets, and the good ones.

        It cannot be told from pings that were not repeated.
        """
        pairs = [pair for pair in self._by_end()[device] if is_direct(pair) and pair not in explained]
        pings = [ping for pair in pairs for ping in self._pings[pair]]
        rate = 1 - sum(ping.received for ping in pings) / _packets(pings)
        return all(self._is_plausible(pair, rate) for pair in pairs) and self._were_repeated(pairs, rate)

    def _is_plausible(self, pair: Pair, rate: float) -> bool:
        """Return whether a pair may have lost its packets at this rate. A pair that no packet passes is dead."""
        packets = _packets(self._pings[pair])
        lost = packets - sum(ping.received for ping in self._pings[pair])
        return lost < packets and _chance(lost, packets, rate) >= _CHANCE

    def _were_repeated(self, pairs: Iterable[Pair], rate: float) -> bool:
        """Return whether the good ones of some pairs were repeated, and may have lost nothing at this rate."""
        good = [ping for pair in pairs if pair not in self._bad for ping in self._pings[pair]]
        return all(ping.sent > _ONCE for ping in good) and (1 - rate) ** _packets(good) >= _CHANCE

    def _leaves_of(self, pair: Pair) -> frozenset[str] | None:
        """Return the two different leaves that a pair connects; None if it does not, or if one is not known."""
        leaves = frozenset(self._place(ping_end).leaf for ping_end in pair)
        return leaves if len(leaves) == 2 and "" not in leaves else None

    def _links(self) -> Iterator[Cause]:
        for pair in [pair for pair in self._remaining if pair in self._bad]:
            part = self._parts is not None and self._connected.issuperset(pair) and not self._parts.are_joined(*pair)
            yield self._cause("link", [pair], *map(str, pair), part=part)


def _by_pair(pings: Iterable[Ping]) -> dict[Pair, list[Ping]]:
    """Return the pings that were sent, by their ends."""
    by_pair: dict[Pair, list[Ping]] = defaultdict(list)
    peer_ends: dict[tuple[str, str], PingEnd] = {}  # by the text of a ping, since many have the same peer
    for ping in pings:
        if ping.sent and not ping.error:
            own_end, peer = own(ping), (ping.peer, ping.address)
            peer_end = peer_ends.get(peer) or peer_ends.setdefault(peer, end(ping))
            by_pair[(own_end, peer_end) if own_end < peer_end else (peer_end, own_end)].append(ping)
    return by_pair


def _chance(lost: int, packets: int, rate: float) -> float:
    """Return the most that the probability to lose that many of some packets, or more, can be (Chernoff's bound)."""
    share = lost / packets
    if not rate < share < 1:
        return 1.0
    return exp(packets * (share * log(rate / share) + (1 - share) * log((1 - rate) / (1 - share))))


def _packets(pings: Iterable[Ping]) -> int:
    return sum(ping.sent for ping in pings)


def _ends(pairs: Iterable[Pair]) -> set[PingEnd]:
    return set(chain.from_iterable(pairs))


def _other(pair: Pair, near_end: PingEnd) -> PingEnd:
    return pair[1] if pair[0] == near_end else pair[0]
