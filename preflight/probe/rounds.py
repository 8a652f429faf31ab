"""Rounds of tests: their groups and operations. Pure. `search` chooses the pairs after the first round of pairs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from preflight.model.cluster import Cluster, Device, Fabric, Host
from preflight.model.measure import Member, Scope, TestResult
from preflight.probe.operations.collectives import collectives
from preflight.probe.operations.local_tests import device_tests, processor_tests, training_test
from preflight.probe.operations.operation import Operation
from preflight.probe.request import Request


@dataclass(frozen=True)
class RankGroup:
    """Ranks and their common operations. `members` are ordered by rank, 0 first. The name is unique in the run."""

    name: str
    members: tuple[Member, ...]
    tests: tuple[Operation, ...]
    scope: Scope = Scope.ALL

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(member.host for member in self.members))

    @property
    def meets(self) -> bool:
        """True if its ranks make a communicator. A device alone has no rank to meet."""
        return self.scope is not Scope.DEVICE


@dataclass(frozen=True)
class Round:
    """Groups over disjoint devices. `lanes`: the number of groups that may measure at the same time."""

    name: str
    groups: tuple[RankGroup, ...]
    lanes: int


_Tests = Callable[[int], tuple[Operation, ...]]  # by the number of ranks
_RAIL_BYTES = 256 << 20  # the most that a pair sends along its rail, if all pairs send at once; PRB116 needs so much
_RAIL_BYTES_IN_TURN = 4 << 20


Pair = tuple[Member, ...]  # two, rank 0 first
Place = tuple[str, int]  # host, device


@dataclass(frozen=True)
class ProbePlan:
    """Rounds for the hosts that answered.

    `crowded`: a host has fewer cores than ranks, so ranks measure each other's scheduling. Then there is one iteration,
    and groups take turns. `out`: devices that are left out of communicators, because they are broken by themselves and
    the others would wait for them.
    """

    cluster: Cluster
    hosts: tuple[Host, ...]
    request: Request
    crowded: bool = False
    out: frozenset[Place] = frozenset()

    def without(self, places: Iterable[Place]) -> "ProbePlan":
        return replace(self, out=self.out | frozenset(places))

    def devices_of(self, host: Host) -> tuple[Device, ...]:
        """Return the host's devices. A host without any has one rank, which only gloo can use."""
        devices = host.devices or (Device(0),)
        return tuple(device for device in devices if (host.name, device.index) not in self.out)

    def _places(self, host: Host) -> list[Place]:
        return [(host.name, device.index) for device in self.devices_of(host)]

    def _round(self, number: int, scope: Scope, groups: Iterable[Sequence[Place]], tests: _Tests) -> Round:
        numbered_groups = tuple(
            RankGroup(f"r{number}g{place}", members, tests(len(members)), scope)
            for place, members in enumerate(map(pair_of, groups))
        )
        return Round(f"r{number}", numbered_groups, lanes=1 if self.crowded else max(1, len(numbered_groups)))

    def devices(self, number: int) -> Round:
        """Return a round of every device by itself, all at once.

        They share no network. If they share cores, none is judged.
        """
        groups = [[place] for host in self.hosts for place in self._places(host)]
        tests = device_tests(self.cluster.product, self.request.backend, self.request.quick)
        tests += () if self.crowded else processor_tests()
        round_ = self._round(number, Scope.DEVICE, groups, lambda _: tests)
        return replace(round_, lanes=max(1, len(groups)))

    def processors(self, number: int) -> Round:
        """Return a round of the hosts' processors, in turn, if they cannot be measured beside their devices."""
        first_places = [self._places(host)[:1] for host in self.hosts if self._places(host)]
        return self._round(number, Scope.DEVICE, first_places if self.crowded else [], lambda _: processor_tests())

    def within_hosts(self, number: int) -> Round:
        """Return a round of the devices of each host that has more than one."""
        groups = [places for host in self.hosts if len(places := self._places(host)) > 1]
        return self._round(number, Scope.HOST, groups, self._collectives)

    def rails(self, number: int) -> Round:
        """Return a round of the devices with the same index, on all hosts that have it."""
        by_index: dict[int, list[Place]] = defaultdict(list)
        for host in self.hosts:
            for place in self._places(host):
                by_index[place[1]].append(place)
        groups = [by_index[index] for index in sorted(by_index) if len(by_index[index]) > 1]
        return self._round(number, Scope.RAIL, groups, self._collectives)

    def all_devices(self, number: int) -> Round:
        """Return a round of all devices together, with a training step at the end."""
        places = [place for host in self.hosts for place in self._with_partners(host)]
        training = (training_test(),) if self.request.trains else ()

        def tests(ranks: int) -> tuple[Operation, ...]:
            return (
                *(test for test in self._collectives(ranks) if test.op != "send_recv" or not self.parted),
                *training,
            )

        return self._round(number, Scope.ALL, [places] if places else [], tests)

    @property
    def parted(self) -> bool:
        """True if all devices together include some without a path to each other: different rails of a direct fabric.

        HCCL's collectives need no such path (level 0 within a server, level 1 along the rails). A send does.
        """
        if self.cluster.fabric is not Fabric.DIRECT or self.request.backend == "gloo":
            return False
        return len(self.hosts) > 1 and len({device for _, device in self.places()}) > 1

    def _with_partners(self, host: Host) -> list[Place]:
        """Return a host's devices for tests with several hosts: if `parted`, those on complete rails."""
        places = self._places(host)
        if not self.parted:
            return places
        rails = [{rail for _, rail in self._places(other_host)} for other_host in self.hosts]
        return [place for place in places if all(place[1] in host_rails for host_rails in rails)] or places

    def together(self, number: int, groups: Iterable[Iterable[str]], like: TestResult) -> Round:
        """Return a round of all devices of the hosts of each group, with the operations that are like a failed test.

        If the ranks failed to meet, it is the first of all operations.
        """
        places_by_host = {host.name: self._with_partners(host) for host in self.hosts}
        places = [[place for name in sorted(names) for place in places_by_host.get(name, ())] for names in groups]
        kind = (like.op, like.dtype, like.form, like.reduction)

        def again(ranks: int) -> tuple[Operation, ...]:
            all_tests = (*self._collectives(ranks), training_test())
            alike = tuple(test for test in all_tests if (test.op, test.dtype, test.form, test.reduction) == kind)
            return alike or all_tests[:1]

        return self._round(number, Scope.ALL, [group for group in places if len(group) > 1], again)

    def _collectives(self, ranks: int) -> tuple[Operation, ...]:
        return collectives(self.cluster.product, self.request, ranks, crowded=self.crowded)

    def places(self) -> list[Place]:
        return [place for host in self.hosts for place in self._places(host)]

    def rail_places(self) -> dict[int, dict[str, Place]]:
        """Return rail → its devices by host, for rails with several.

        Over gloo all devices of a host use the same host NIC. So the first stands for all of them, and there is one
        rail.
        """
        rails: dict[int, dict[str, Place]] = defaultdict(dict)
        for host in self.hosts:
            for place in self._places(host)[: 1 if self.request.backend == "gloo" else None]:
                rails[0 if self.request.backend == "gloo" else place[1]][host.name] = place
        return {rail: of_rail for rail, of_rail in sorted(rails.items()) if len(of_rail) > 1}

    def neighbours(self) -> list[list[Pair]]:
        """Return pairs along the rails, of neighbours in the ring of hosts, in rounds of disjoint pairs.

        There are as few rounds as possible. A single host's pairs are neighbouring devices.
        """
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
        """Return a round with one test for each pair.

        On crowded hosts it has several short tests, so that other load on the machine affects all pairs alike.
        `each_way`: each end also sends to the other alone, which shows the direction in which a pair is slow.
        """
        limit = _RAIL_BYTES_IN_TURN if self.crowded else _RAIL_BYTES
        test = Operation(
            "all_reduce", "float32", min(max(self.request.sizes), limit), reduction="sum", iterations=5, warmup=1
        )
        tests = [replace(test, iterations=1)] * 3 if self.crowded else [test]
        if each_way:
            tests += [replace(tests[0], op="broadcast", root=root, reduction="") for root in (0, 1)]
        groups = tuple(
            RankGroup(f"r{number}g{place}", pair, tuple(tests), Scope.PAIR) for place, pair in enumerate(pairs)
        )
        return Round(f"r{number}", groups, lanes=1 if self.crowded else len(groups))

    def may_meet(self, first: Place, second: Place) -> bool:
        """Return whether two devices have a path outside a host: a cable, one subnet, or gateways."""
        if first[0] == second[0]:
            return False
        if self.cluster.fabric is Fabric.DIRECT:
            return first[1] == second[1]
        a, b = self._device(first), self._device(second)
        if a.address is None or b.address is None or (a.gateway and b.gateway):
            return True
        return a.address.network == b.address.network

    def _device(self, place: Place) -> Device:
        host = next(host for host in self.hosts if host.name == place[0])
        return next(device for device in self.devices_of(host) if device.index == place[1])


def place_of(member: Member) -> Place:
    return member.host, member.device


def pair_of(places: Iterable[Place]) -> Pair:
    """Return members in the order of their ranks."""
    return tuple(Member(host, device, rank) for rank, (host, device) in enumerate(places))


def _ring(hosts: int) -> list[list[tuple[int, int]]]:
    """Return the edges k – k+1 of a ring in rounds of disjoint edges.

    There is one round for 2 hosts, two for an even number, else three.
    """
    edges = [(k, (k + 1) % hosts) for k in range(hosts if hosts > 2 else 1)]
    last_edge = [edges.pop()] if hosts % 2 and hosts > 2 else []
    return [edges for edges in (edges[::2], edges[1::2], last_edge) if edges]
