"""What is tested, by whom, in which round. Pure.

Round 1 is all devices together. Round 2 is the rails: pairs of neighbouring hosts, same device index. What fails or is
slow there is tried again: each end with a partner that was good (which tells a device from a link), and pairs whose
ends were both good elsewhere once more with each other (which tells a link from an accident).
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from preflight.model.cluster import Cluster, Device, Fabric, Host, Product
from preflight.model.measure import Member, Observation, TestOutcome

FEWEST = 4  # pairs whose median says what is usual; PRB103 needs as many
SLOW = 0.8  # of the median bus bandwidth of the rails: below it a pair is tried again


@dataclass(frozen=True)
class Collective:
    """One operation. `bytes` per rank; `iterations` are timed, after `warmup` ones; all are compared."""

    op: str  # all_reduce | broadcast
    dtype: str
    bytes: int
    root: int | None = None
    iterations: int = 1
    warmup: int = 0


@dataclass(frozen=True)
class Group:
    """One communicator and what it runs. `members` are ordered by rank, 0 first; the name is unique in the run."""

    name: str
    members: tuple[Member, ...]
    tests: tuple[Collective, ...]


@dataclass(frozen=True)
class Round:
    """Groups over disjoint devices. `lanes`: how many of them may measure at the same time."""

    name: str
    groups: tuple[Group, ...]
    lanes: int


_DTYPES: Mapping[Product, tuple[str, ...]] = {
    # Reduction types of HCCL: Atlas A1 has neither bfloat16 nor int16 (HCCL, "comm_ops_support_list").
    Product.ATLAS_A1: ("float32", "int32", "float16", "int8", "int64"),
    Product.ATLAS_A2: ("float32", "int32", "float16", "bfloat16", "int8", "int64"),
    Product.ATLAS_A3: ("float32", "int32", "float16", "bfloat16", "int8", "int64"),
    Product.NVIDIA: ("float32", "int32", "float16", "bfloat16", "int64"),
    Product.CPU: ("float32", "int32", "float16", "bfloat16", "int64"),
}
_TINY = 64  # bytes: enough for elements of every type to differ, up to 16 ranks
_RAIL_BYTES = 16 << 20  # the most that a pair sends along its rail, where all pairs do it at once
_RAIL_BYTES_IN_TURN = 4 << 20


@dataclass(frozen=True)
class Plan:
    """Makes the rounds for the hosts that answered. `crowded`: a host has fewer cores than ranks, so ranks measure one
    another's scheduling: one iteration then, and pairs take turns."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    backend: str
    sizes: tuple[int, ...]  # bytes
    crowded: bool

    def devices(self, host: Host) -> tuple[Device, ...]:
        """The host's devices; a host without any has one rank, which only gloo can use."""
        return host.devices or (Device(0),)

    def world(self) -> Round:
        """Every device: all_reduce in every type and size, broadcast from every root."""
        places = [(host.name, device.index) for host in self.hosts for device in self.devices(host)]
        group = Group("r1g0", _members(places), self._world_tests(len(places)))
        return Round("r1", (group,), lanes=1)

    def _world_tests(self, ranks: int) -> tuple[Collective, ...]:
        dtypes = _DTYPES[self.cluster.product]
        small, *larger = sorted(self.sizes)
        tests = [self._timed(Collective("all_reduce", "float32", small))]
        # Types of one and two bytes get each element from one rank alone (see Pattern): every rank needs its element.
        tiny = max(_TINY, 4 * (ranks + ranks % 2))  # whole elements of up to eight bytes
        tests += [Collective("all_reduce", dtype, tiny) for dtype in dtypes if dtype != "float32"]
        tests += [self._timed(Collective("all_reduce", "float32", size)) for size in larger]
        middle = larger[0] if larger else small
        for root in range(ranks):
            tests.append(Collective("broadcast", dtypes[root % len(dtypes)], middle, root))
        return tuple(tests)

    def _timed(self, test: Collective) -> Collective:
        return test if self.crowded else replace(test, iterations=5, warmup=1)

    def rails(self) -> list[list[tuple[Member, ...]]]:
        """Pairs of neighbours in the ring of hosts, as few rounds of disjoint pairs as possible.

        Over gloo every device of a host would use the same host NIC, so there one pair stands for all. A single host's
        pairs are neighbouring devices.
        """
        if len(self.hosts) == 1:
            devices = [(self.hosts[0].name, device.index) for device in self.devices(self.hosts[0])]
            return [[_members(pair) for pair in zip(devices[::2], devices[1::2], strict=False)]]
        return [
            [pair for a, b in edges for pair in self._between(self.hosts[a], self.hosts[b])]
            for edges in _ring(len(self.hosts))
        ]

    def _between(self, a: Host, b: Host) -> list[tuple[Member, ...]]:
        theirs = {device.index for device in self.devices(b)}
        both = [device.index for device in self.devices(a) if device.index in theirs]
        if self.backend == "gloo":
            both = both[:1]
        return [_members([(a.name, index), (b.name, index)]) for index in both]

    def pair_round(self, number: int, pairs: Iterable[tuple[Member, ...]]) -> Round:
        """One test a pair; on crowded hosts several short ones, so that what else the machine does hits all alike."""
        most = _RAIL_BYTES_IN_TURN if self.crowded else _RAIL_BYTES
        test = Collective("all_reduce", "float32", min(max(self.sizes), most), iterations=5, warmup=1)
        tests = (replace(test, iterations=1),) * 3 if self.crowded else (test,)
        groups = tuple(Group(f"r{number}g{place}", pair, tests) for place, pair in enumerate(pairs))
        return Round(f"r{number}", groups, lanes=1 if self.crowded else len(groups))

    def swapped(
        self, bad: Sequence[tuple[Member, ...]], good: Sequence[tuple[Member, ...]]
    ) -> list[tuple[Member, ...]]:
        """Each end of the bad pairs with an end of a good pair: (a, b) and (c, d) become (a, d) and (c, b).

        Empty where rails do not reach each other (direct fabric); bad pairs beyond the number of good ones wait for
        nothing: they stay untold.
        """
        if self.cluster.fabric is Fabric.DIRECT and len(self.hosts) > 1:
            return []
        pairs, free = [], list(good)
        for a, b in bad:
            fitting = [pair for pair in free if self._reach(a, pair[1]) and self._reach(pair[0], b)]
            # First choice: the same two hosts, so that nothing but the devices is exchanged.
            fitting.sort(key=lambda pair: (pair[0].host != a.host) + (pair[1].host != b.host))
            if fitting:
                c, d = fitting[0]
                free.remove(fitting[0])
                pairs += [_members([_place(a), _place(d)]), _members([_place(c), _place(b)])]
        return pairs

    def _reach(self, a: Member, b: Member) -> bool:
        """Different hosts (or the only one), and one subnet, or a gateway on both sides."""
        if a.host == b.host and len(self.hosts) > 1:
            return False
        one, other = self._device(a), self._device(b)
        if one.address is None or other.address is None or (one.gateway and other.gateway):
            return True
        return one.address.network == other.address.network

    def _device(self, member: Member) -> Device:
        host = next(host for host in self.hosts if host.name == member.host)
        return next(device for device in self.devices(host) if device.index == member.device)


def _members(places: Iterable[tuple[str, int]]) -> tuple[Member, ...]:
    return tuple(Member(host, device, rank) for rank, (host, device) in enumerate(places))


def _place(member: Member) -> tuple[str, int]:
    return member.host, member.device


def _ring(hosts: int) -> list[list[tuple[int, int]]]:
    """The edges k – k+1 of a ring in rounds of disjoint edges: one for 2 hosts, two for an even number, else three."""
    edges = [(k, (k + 1) % hosts) for k in range(hosts if hosts > 2 else 1)]
    last = [edges.pop()] if hosts % 2 and hosts > 2 else []
    return [edges for edges in (edges[::2], edges[1::2], last) if edges]


def _speeds(observations: Iterable[Observation]) -> dict[tuple[Member, ...], list[float]]:
    """Every bus bandwidth measured, GB/s, by pair."""
    speeds: dict[tuple[Member, ...], list[float]] = {}
    for observation in observations:
        test = observation.test
        if test.outcome is TestOutcome.PASS and test.busbw_GBps:
            speeds.setdefault(test.members, []).append(test.busbw_GBps)
    return speeds


def slow_below(rails: Iterable[Observation]) -> float:
    """GB/s under which a pair is slow; 0 where too few passed to know what is usual.

    `SLOW` times the median over pairs; less where a pair differs from itself by more than that from one measurement to
    the next: then the machines are busy with something else, and smaller differences between pairs mean nothing. Of
    several measurements of a pair the best counts, because disturbance only ever makes a pair slower.
    """
    speeds = _speeds(rails).values()
    if len(speeds) < FEWEST:
        return 0.0
    usual = statistics.median(max(measured) for measured in speeds)
    unrest = statistics.median(min(measured) / max(measured) for measured in speeds)
    return usual * min(SLOW, unrest)


def with_slow(observations: Sequence[Observation], below: float) -> list[Observation]:
    """The same observations; the tests of a pair that was never as fast as `below` are called slow."""
    slow = {pair for pair, measured in _speeds(observations).items() if max(measured) < below}
    return [
        replace(seen, test=replace(seen.test, outcome=TestOutcome.SLOW))
        if seen.test.members in slow and seen.test.outcome is TestOutcome.PASS and seen.test.bytes
        else seen
        for seen in observations
    ]


def split(observations: Iterable[Observation]) -> tuple[list[tuple[Member, ...]], list[tuple[Member, ...]]]:
    """The pairs that passed everything, and those that did not."""
    good: dict[tuple[Member, ...], bool] = {}
    for seen in observations:
        good[seen.test.members] = good.get(seen.test.members, True) and seen.test.outcome is TestOutcome.PASS
    return [pair for pair, well in good.items() if well], [pair for pair, well in good.items() if not well]


def acquitted(bad: Iterable[tuple[Member, ...]], swapped: Iterable[Observation]) -> list[tuple[Member, ...]]:
    """The bad pairs whose ends have both passed with other partners: to be tried again with each other."""
    good, _ = split(swapped)
    cleared = {_place(member) for pair in good for member in pair}
    return [pair for pair in bad if all(_place(member) in cleared for member in pair)]
