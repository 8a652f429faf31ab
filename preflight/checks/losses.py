"""What lost pings have in common: the causes that explain them, by counting. Pure.

Pings are counted by pairs: two devices, or a device and a gateway, with the pings of both directions. A pair is bad
where a ping of it is lost. The widest thing whose pairs are all bad is named, once, and takes its pairs with it, so
that nothing else is named for the same pings. A device, a host or a gateway is named only if it fails with two others
at least; a single bad pair stays what it is, a link.

A gateway is asked because packets have to pass through it, not because it has to answer: many refuse ICMP or limit it.
So one that does not answer is only "silent" where devices reach others, and gone where they do not reach those behind
it. A device whose link is down is known to reach nobody: its lost pings are left out, as evidence and as complaint.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from preflight.facts.types import Ping

Kind = Literal["silent", "gateway", "fabric", "rail", "host", "device", "leaves", "hosts", "link"]
_GATEWAY = -1


class End(NamedTuple):
    """A device, or a gateway by its address."""

    host: str
    device: int

    @property
    def is_gateway(self) -> bool:
        return self.device == _GATEWAY

    def __str__(self) -> str:
        return f"gateway {self.host}" if self.is_gateway else f"{self.host}/{self.device}"


Pair = tuple[End, End]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is: the switch it hangs on ("": not known), its subnet as address and mask (None: not known), and
    whether its link is known to be down."""

    leaf: str = ""
    subnet: tuple[int, int] | None = None
    down: bool = False


Places = Mapping[tuple[str, int], Place]  # by host and device
_NOWHERE = Place()


@dataclass(frozen=True)
class Cause:
    """`names`: of a host, of the host of a device, of two hosts or leaves, of the ends of a link; a gateway's address.
    `device`: its index, or that of a rail. `lost`: the pings it explains, out of `total`; with a "gateway" that is
    gone also those through it."""

    kind: Kind
    names: tuple[str, ...]
    device: int | None
    lost: tuple[Ping, ...]
    total: int


def end(ping: Ping) -> End:
    """Who was pinged."""
    host, slash, device = ping.peer.rpartition("/")
    return End(host, int(device)) if slash and device.isdecimal() else End(ping.address, _GATEWAY)


def own(ping: Ping) -> End:
    return End(ping.host, ping.device)


def is_lost(ping: Ping) -> bool:
    """Some of it or all."""
    return not ping.error and ping.received < ping.sent


def causes(pings: Sequence[Ping], places: Places, lost: Callable[[Ping], bool] = is_lost) -> list[Cause]:
    """The causes of the lost ones of `pings`, but for those of devices whose link is down, widest first."""
    if not any(map(lost, pings)):
        return []
    return _Count(pings, places, lost).causes()


class _Count:
    """The pairs that are still to be explained; each step takes away those it explains."""

    def __init__(self, pings: Sequence[Ping], places: Places, lost: Callable[[Ping], bool]) -> None:
        self._lost = lost
        self._places = places
        self._pings: dict[Pair, list[Ping]] = defaultdict(list)
        self._could_not_ask = {own(ping) for ping in pings if ping.error}
        known: dict[tuple[str, str], End] = {}  # a peer's end by its words: many ping the same
        for ping in pings:
            if ping.sent and not ping.error:
                one, words = own(ping), (ping.peer, ping.address)
                other = known.get(words) or known.setdefault(words, end(ping))
                self._pings[(one, other) if one < other else (other, one)].append(ping)
        bad = {pair for pair, those in self._pings.items() if any(map(lost, those))}
        down = {pair for pair in bad if any(self._place(it).down for it in pair)}
        self._bad = bad - down
        self._left = dict.fromkeys(pair for pair in self._pings if pair not in down)

    def causes(self) -> list[Cause]:
        steps = (self._gateways, self._fabric, self._rails, self._hosts, self._devices, self._between_leaves,
                 self._between_hosts, self._links)  # fmt: skip
        found: list[Cause] = []
        for step in steps:
            if self._bad & self._left.keys():
                found += step()
        return found

    def _cause(self, kind: Kind, pairs: Collection[Pair], *names: str, device: int | None = None) -> Cause:
        for pair in pairs:
            self._left.pop(pair, None)
        pings = [ping for pair in pairs for ping in self._pings[pair]]
        return Cause(kind, names, device, tuple(filter(self._lost, pings)), len(pings))

    def _place(self, device: End) -> Place:
        return self._places.get(device, _NOWHERE)

    def _all_bad(self, pairs: Collection[Pair]) -> bool:
        return bool(pairs) and all(pair in self._bad for pair in pairs)

    def _by_end(self) -> dict[End, list[Pair]]:
        by_end: dict[End, list[Pair]] = defaultdict(list)
        for pair in self._left:
            for one in pair:
                by_end[one].append(pair)
        return by_end

    def _gateways(self) -> Iterator[Cause]:
        """Those that do not answer devices which reach others.

        It is gone if it answers nobody and nobody reaches who is behind it; it is silent otherwise. A device that alone
        reaches nobody behind it keeps its pairs: the trouble may be its own."""
        by_end = self._by_end()
        found: list[tuple[Kind, str, list[Pair]]] = []
        for gateway in sorted(one for one in by_end if one.is_gateway):
            users = {_other(pair, gateway): pair for pair in by_end[gateway]}
            unheard = [device for device, pair in users.items() if pair in self._bad]
            reaching = [device for device in unheard if self._reaches_somebody(device, by_end)]
            if len(reaching) > 1 and len(unheard) == len(users):
                behind = self._cut_off(unheard, by_end, least=2)
                kind: Kind = "gateway" if behind else "silent"
                found.append((kind, gateway.host, [*users.values(), *behind]))
            elif silent := [users[it] for it in reaching if not self._cut_off([it], by_end, least=1)]:
                found.append(("silent", gateway.host, silent))
        for kind, address, pairs in found:
            yield self._cause(kind, pairs, address)

    def _reaches_somebody(self, device: End, by_end: Mapping[End, Sequence[Pair]]) -> bool:
        """Another device; or, where it pinged none, its gateway with a part of the packets."""
        peers = [pair for pair in by_end[device] if not any(it.is_gateway for it in pair)]
        if peers:
            return not self._all_bad(peers)
        return any(ping.received for pair in by_end[device] for ping in self._pings[pair])

    def _cut_off(self, devices: Sequence[End], by_end: Mapping[End, Sequence[Pair]], *, least: int) -> list[Pair]:
        """The pairs with devices of other subnets, if all are bad and `least` of these devices reach somebody else."""
        behind: dict[Pair, End] = {}
        for device in devices:
            own = self._place(device).subnet
            for pair in by_end[device]:
                other = _other(pair, device)
                subnet = self._place(other).subnet
                if own and subnet and own != subnet:
                    behind[pair] = other
        good = {far for far in behind.values() if not self._all_bad(by_end[far])}
        return list(behind) if self._all_bad(behind) and len(good) >= least else []

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
            yield self._cause("host", pairs, host)

    def _devices(self) -> Iterator[Cause]:
        """Two peers at least, and all are lost."""
        by_end = self._by_end()
        named = [
            (one, pairs)
            for one, pairs in sorted(by_end.items())
            if not one.is_gateway and len(pairs) > 1 and self._all_bad(pairs)
        ]
        for one, pairs in named:
            yield self._cause("device", pairs, one.host, device=one.device)

    def _between_leaves(self) -> Iterator[Cause]:
        """Bad pairs of two leaves, of two devices on each side at least, where no bad pair is left inside either."""
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
            yield self._cause("link", [pair], *map(str, pair))


def _other(pair: Pair, one: End) -> End:
    return pair[1] if pair[0] == one else pair[0]
