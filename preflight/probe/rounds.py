"""Who tests together, in which round. Pure.

Pairs are neighbouring hosts, same device index. What fails or is slow there is tried again: each end with a partner
that was good (which tells a device from a link), and pairs whose ends were both good elsewhere once more with each
other (which tells a link from an accident).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from preflight.model.cluster import Cluster, Device, Fabric, Host
from preflight.model.measure import Member, Scope
from preflight.probe.collectives import collectives
from preflight.probe.local_tests import device_tests, training_test
from preflight.probe.operation import Operation
from preflight.probe.request import Request


@dataclass(frozen=True)
class Group:
    """Ranks and what they run together. `members` are ordered by rank, 0 first; the name is unique in the run."""

    name: str
    members: tuple[Member, ...]
    tests: tuple[Operation, ...]
    scope: Scope = Scope.ALL

    @property
    def meets(self) -> bool:
        """Whether its ranks make a communicator. A device alone has nobody to meet."""
        return self.scope is not Scope.DEVICE


@dataclass(frozen=True)
class Round:
    """Groups over disjoint devices. `lanes`: how many of them may measure at the same time."""

    name: str
    groups: tuple[Group, ...]
    lanes: int


_Tests = Callable[[int], tuple[Operation, ...]]  # of how many ranks
_RAIL_BYTES = 256 << 20  # the most that a pair sends along its rail, where all pairs do it at once; PRB116 wants it
_RAIL_BYTES_IN_TURN = 4 << 20


Pair = tuple[Member, ...]  # two, rank 0 first
Place = tuple[str, int]  # host, device


@dataclass(frozen=True)
class Plan:
    """Makes the rounds for the hosts that answered. `crowded`: a host has fewer cores than ranks, so ranks measure one
    another's scheduling: one iteration then, and groups take turns. `out`: devices that are left out of communicators,
    because they are broken by themselves and the others would wait for them."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    request: Request
    crowded: bool = False
    out: frozenset[Place] = frozenset()

    def without(self, places: Iterable[Place]) -> "Plan":
        return replace(self, out=self.out | frozenset(places))

    def devices_of(self, host: Host) -> tuple[Device, ...]:
        """The host's devices; a host without any has one rank, which only gloo can use."""
        devices = host.devices or (Device(0),)
        return tuple(device for device in devices if (host.name, device.index) not in self.out)

    def _places(self, host: Host) -> list[Place]:
        return [(host.name, device.index) for device in self.devices_of(host)]

    def _round(self, number: int, scope: Scope, groups: Iterable[Sequence[Place]], tests: _Tests) -> Round:
        made = tuple(
            Group(f"r{number}g{place}", members, tests(len(members)), scope)
            for place, members in enumerate(map(_members, groups))
        )
        return Round(f"r{number}", made, lanes=1 if self.crowded else max(1, len(made)))

    def devices(self, number: int) -> Round:
        """Every device by itself, all at once: they share no network, and where they share cores nobody is judged."""
        alone = [[place] for host in self.hosts for place in self._places(host)]
        tests = device_tests(self.cluster.product, self.request.backend, self.request.quick)
        made = self._round(number, Scope.DEVICE, alone, lambda _: tests)
        return replace(made, lanes=max(1, len(alone)))

    def within_hosts(self, number: int) -> Round:
        """The devices of each host, where it has more than one."""
        groups = [places for host in self.hosts if len(places := self._places(host)) > 1]
        return self._round(number, Scope.HOST, groups, self._collectives)

    def rails(self, number: int) -> Round:
        """The devices with the same index, on all hosts that have it."""
        by_index: dict[int, list[Place]] = defaultdict(list)
        for host in self.hosts:
            for place in self._places(host):
                by_index[place[1]].append(place)
        groups = [by_index[index] for index in sorted(by_index) if len(by_index[index]) > 1]
        return self._round(number, Scope.RAIL, groups, self._collectives)

    def everybody(self, number: int) -> Round:
        """Every device; last, a training step."""
        places = [place for host in self.hosts for place in self._places(host)]
        last = (training_test(),) if self.request.trains else ()
        return self._round(
            number, Scope.ALL, [places] if places else [], lambda size: (*self._collectives(size), *last)
        )

    def _collectives(self, ranks: int) -> tuple[Operation, ...]:
        iterations, warmup = (1, 0) if self.crowded else (5, 1)
        return collectives(
            self.cluster.product, ranks, self.request.sizes,
            backend=self.request.backend, iterations=iterations, warmup=warmup, quick=self.request.quick,
            crowded=self.crowded,
        )  # fmt: skip

    def neighbours(self) -> list[list[Pair]]:
        """Pairs of neighbours in the ring of hosts, as few rounds of disjoint pairs as possible.

        Over gloo every device of a host would use the same host NIC, so there one pair stands for all. A single host's
        pairs are neighbouring devices.
        """
        if len(self.hosts) == 1:
            places = self._places(self.hosts[0])
            return [[_members(pair) for pair in zip(places[::2], places[1::2], strict=False)]]
        return [
            [pair for a, b in edges for pair in self._between(self.hosts[a], self.hosts[b])]
            for edges in _ring(len(self.hosts))
        ]

    def _between(self, a: Host, b: Host) -> list[Pair]:
        theirs = {device.index for device in self.devices_of(b)}
        both = [device.index for device in self.devices_of(a) if device.index in theirs]
        if self.request.backend == "gloo":
            both = both[:1]
        return [_members([(a.name, index), (b.name, index)]) for index in both]

    def pair_round(self, number: int, pairs: Iterable[Pair]) -> Round:
        """One test a pair; on crowded hosts several short ones, so that what else the machine does hits all alike."""
        most = _RAIL_BYTES_IN_TURN if self.crowded else _RAIL_BYTES
        test = Operation(
            "all_reduce", "float32", min(max(self.request.sizes), most), reduction="sum", iterations=5, warmup=1
        )
        tests = (replace(test, iterations=1),) * 3 if self.crowded else (test,)
        groups = tuple(Group(f"r{number}g{place}", pair, tests, Scope.PAIR) for place, pair in enumerate(pairs))
        return Round(f"r{number}", groups, lanes=1 if self.crowded else len(groups))

    def swapped(self, bad: Sequence[Pair], good: Sequence[Pair]) -> list[Pair]:
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
        return next(device for device in self.devices_of(host) if device.index == member.device)


def _members(places: Iterable[Place]) -> Pair:
    return tuple(Member(host, device, rank) for rank, (host, device) in enumerate(places))


def _place(member: Member) -> Place:
    return member.host, member.device


def _ring(hosts: int) -> list[list[tuple[int, int]]]:
    """The edges k – k+1 of a ring in rounds of disjoint edges: one for 2 hosts, two for an even number, else three."""
    edges = [(k, (k + 1) % hosts) for k in range(hosts if hosts > 2 else 1)]
    last = [edges.pop()] if hosts % 2 and hosts > 2 else []
    return [edges for edges in (edges[::2], edges[1::2], last) if edges]
