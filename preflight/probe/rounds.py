"""Who tests together, in which round, and what. Pure. Which pairs are tried after the first is `search`'s part."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from preflight.model.cluster import Cluster, Device, Fabric, Host
from preflight.model.measure import Member, Scope, TestResult
from preflight.probe.collectives import collectives
from preflight.probe.local_tests import device_tests, processor_tests, training_test
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
            for place, members in enumerate(map(pair_of, groups))
        )
        return Round(f"r{number}", made, lanes=1 if self.crowded else max(1, len(made)))

    def devices(self, number: int) -> Round:
        """Every device by itself, all at once: they share no network, and where they share cores nobody is judged."""
        alone = [[place] for host in self.hosts for place in self._places(host)]
        tests = device_tests(self.cluster.product, self.request.backend, self.request.quick)
        tests += () if self.crowded else processor_tests()
        made = self._round(number, Scope.DEVICE, alone, lambda _: tests)
        return replace(made, lanes=max(1, len(alone)))

    def processors(self, number: int) -> Round:
        """The hosts' own processors, one after the other, where they could not be measured beside their devices."""
        first = [self._places(host)[:1] for host in self.hosts if self._places(host)]
        return self._round(number, Scope.DEVICE, first if self.crowded else [], lambda _: processor_tests())

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
        places = [place for host in self.hosts for place in self._with_partners(host)]
        last = (training_test(),) if self.request.trains else ()

        def tests(ranks: int) -> tuple[Operation, ...]:
            return (*(it for it in self._collectives(ranks) if it.op != "send_recv" or not self.parted), *last)

        return self._round(number, Scope.ALL, [places] if places else [], tests)

    @property
    def parted(self) -> bool:
        """Whether everybody together has devices without a way to each other: those on different rails of a direct
        fabric. HCCL's collectives need none (level 0 within a server, level 1 along the rails); a send does."""
        if self.cluster.fabric is not Fabric.DIRECT or self.request.backend == "gloo":
            return False
        return len(self.hosts) > 1 and len({device for _, device in self.places()}) > 1

    def _with_partners(self, host: Host) -> list[Place]:
        """The devices of a host that take part where several hosts do: `parted`, those whose rail is whole."""
        places = self._places(host)
        if not self.parted:
            return places
        rails = [{rail for _, rail in self._places(one)} for one in self.hosts]
        return [place for place in places if all(place[1] in own for own in rails)] or places

    def together(self, number: int, groups: Iterable[Iterable[str]], like: TestResult) -> Round:
        """All devices of the hosts of each group, in one round, with the operations that are like a test that failed
        among more of them; with the first of all, where they failed to meet."""
        own = {host.name: self._with_partners(host) for host in self.hosts}
        places = [[place for name in sorted(names) for place in own.get(name, ())] for names in groups]
        kind = (like.op, like.dtype, like.form, like.reduction)

        def again(ranks: int) -> tuple[Operation, ...]:
            every = (*self._collectives(ranks), training_test())
            alike = tuple(it for it in every if (it.op, it.dtype, it.form, it.reduction) == kind)
            return alike or every[:1]

        return self._round(number, Scope.ALL, [group for group in places if len(group) > 1], again)

    def _collectives(self, ranks: int) -> tuple[Operation, ...]:
        iterations, warmup = (1, 0) if self.crowded else (5, 1)
        return collectives(
            self.cluster.product,
            ranks,
            self.request.sizes,
            backend=self.request.backend,
            iterations=iterations,
            warmup=warmup,
            quick=self.request.quick,
            crowded=self.crowded,
        )

    def places(self) -> list[Place]:
        return [place for host in self.hosts for place in self._places(host)]

    def rail_places(self) -> dict[int, dict[str, Place]]:
        """Rail → its devices by host, where it has several. Over gloo all devices of a host use the same host NIC, so
        the first stands for all of them, and there is one rail."""
        rails: dict[int, dict[str, Place]] = defaultdict(dict)
        for host in self.hosts:
            for place in self._places(host)[: 1 if self.request.backend == "gloo" else None]:
                rails[0 if self.request.backend == "gloo" else place[1]][host.name] = place
        return {rail: of_rail for rail, of_rail in sorted(rails.items()) if len(of_rail) > 1}

    def neighbours(self) -> list[list[Pair]]:
        """Pairs along the rails, of neighbours in the ring of hosts, as few rounds of disjoint pairs as possible. A
        single host's pairs are neighbouring devices."""
        if len(self.hosts) == 1:
            places = self._places(self.hosts[0])
            return [[pair_of(pair) for pair in zip(places[::2], places[1::2], strict=False)]]
        rails = self.rail_places().values()
        names = [host.name for host in self.hosts]
        return [
            [
                pair_of((of_rail[names[a]], of_rail[names[b]]))
                for a, b in edges
                for of_rail in rails
                if {names[a], names[b]} <= of_rail.keys()
            ]
            for edges in _ring(len(names))
        ]

    def pair_round(self, number: int, pairs: Iterable[Pair], *, each_way: bool = False) -> Round:
        """One test a pair; on crowded hosts several short ones, so that what else the machine does hits all alike.
        `each_way`: then each sends to the other alone, which tells in which direction a pair is slow."""
        most = _RAIL_BYTES_IN_TURN if self.crowded else _RAIL_BYTES
        test = Operation(
            "all_reduce", "float32", min(max(self.request.sizes), most), reduction="sum", iterations=5, warmup=1
        )
        tests = [replace(test, iterations=1)] * 3 if self.crowded else [test]
        if each_way:
            tests += [replace(tests[0], op="broadcast", root=root, reduction="") for root in (0, 1)]
        groups = tuple(Group(f"r{number}g{place}", pair, tuple(tests), Scope.PAIR) for place, pair in enumerate(pairs))
        return Round(f"r{number}", groups, lanes=1 if self.crowded else len(groups))

    def may_meet(self, one: Place, other: Place) -> bool:
        """Whether there is a way between two devices but within a host: a cable, one subnet, or gateways."""
        if one[0] == other[0]:
            return False
        if self.cluster.fabric is Fabric.DIRECT:
            return one[1] == other[1]
        a, b = self._device(one), self._device(other)
        if a.address is None or b.address is None or (a.gateway and b.gateway):
            return True
        return a.address.network == b.address.network

    def _device(self, place: Place) -> Device:
        host = next(host for host in self.hosts if host.name == place[0])
        return next(device for device in self.devices_of(host) if device.index == place[1])


def pair_of(places: Iterable[Place]) -> Pair:
    """Members in the order of their ranks."""
    return tuple(Member(host, device, rank) for rank, (host, device) in enumerate(places))


def _ring(hosts: int) -> list[list[tuple[int, int]]]:
    """The edges k – k+1 of a ring in rounds of disjoint edges: one for 2 hosts, two for an even number, else three."""
    edges = [(k, (k + 1) % hosts) for k in range(hosts if hosts > 2 else 1)]
    last = [edges.pop()] if hosts % 2 and hosts > 2 else []
    return [edges for edges in (edges[::2], edges[1::2], last) if edges]
