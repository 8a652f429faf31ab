"""Rounds of pairs, and of larger groups: the localiser says who is tried with whom, and what that means. Pure.

Who fails comes first, and who is slow after that, among those that do not fail: a slow pair is connected all the same.

Each rail has a localiser of its own over its hosts, and their verdicts are merged. Of two hosts nobody is there to ask
along a rail: the devices of both are the members of one localiser, those of different hosts are tried with each other,
and the first round goes along the rails. A single host's devices are the members of one, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from preflight.attribution.localiser.localise import Localiser
from preflight.attribution.localiser.merge import merge
from preflight.attribution.localiser.types import Test
from preflight.model.measure import Located, Observation, TestOutcome
from preflight.model.peers import FEWEST
from preflight.probe.located import Field, located
from preflight.probe.pairs import FEW, slow_below, with_slow
from preflight.probe.rounds import Pair, Place, Plan, pair_of

Leaves = Mapping[Place, str]  # device → its switch, where that is known
_Asked = dict[tuple[int, Test], Pair]  # by rail and test of its localiser
_FAILED = (TestOutcome.FAIL, TestOutcome.HANG, TestOutcome.WRONG_DATA, TestOutcome.NOT_RUN)


class Search:
    """The pairs of one run. `seed`: who meets whom in the first round."""

    def __init__(self, plan: Plan, leaves: Leaves, seed: int) -> None:
        self._plan, self._leaves, self._seed = plan, leaves, seed
        hosts = len(plan.hosts)
        self._of_devices = hosts == 1 or (hosts == 2 and plan.request.backend != "gloo")
        self._below = 0.0  # GB/s; a pair that is slower is slow. Known once it is known who fails
        self._played: list[tuple[_Asked, Sequence[Observation]]] = []
        self._asked: _Asked = {}
        self._out: dict[int, frozenset[str]] = {}  # by rail: members that fail, of whom it is not asked how fast
        self._apart: set[Pair] = set()  # they are, and pairs
        self._failing = self._new_fields()
        self._slow: dict[int, Field] | None = None
        self._given = self._given_rounds()

    def _new_fields(self) -> dict[int, Field]:
        plan = self._plan
        if self._of_devices:
            places = {f"{host}/{device}": (host, device) for host, device in plan.places()}
            taking_part = places.keys() - self._out.get(0, ())

            def may_meet(one: str, other: str) -> bool:
                allowed = len(plan.hosts) == 1 or plan.may_meet(places[one], places[other])
                return allowed and _pair(places, one, other) not in self._apart

            return {0: Field(Localiser(taking_part, seed=self._seed, may_meet=may_meet), places)}
        fields = {}
        for rail, of_rail in plan.rail_places().items():
            taking_part = of_rail.keys() - self._out.get(rail, ())
            topology = {host: self._leaves[of_rail[host]] for host in taking_part if of_rail[host] in self._leaves}

            def are_not_apart(one: str, other: str, of_rail: Mapping[str, Place] = of_rail) -> bool:
                return _pair(of_rail, one, other) not in self._apart

            fields[rail] = Field(
                Localiser(taking_part, topology=topology, seed=self._seed, may_meet=are_not_apart), of_rail
            )
        return fields

    def _given_rounds(self) -> list[list[Pair]]:
        """Rounds that are not the localiser's choice: along the rails of two hosts; all neighbours, where one round of
        pairs is too few to know what is usual, and all of them are enough."""
        matchings = [pairs for pairs in self._plan.neighbours() if pairs]
        if self._of_devices:
            return matchings if len(self._plan.hosts) == 2 else []
        few = matchings and len(matchings[0]) < FEWEST
        return matchings if few and sum(map(len, matchings)) >= FEW else []

    def next_pairs(self) -> list[Pair]:
        """The pairs of the next round, disjoint; empty when there is nothing more to learn."""
        if self._given:
            self._asked = {self._as_asked(pair): pair for pair in self._given.pop(0)}
            return list(self._asked.values())
        self._asked = self._wanted(self._failing if self._slow is None else self._slow)
        if not self._asked and self._slow is None:
            self._slow = self._fields_of_speed()
            self._asked = self._wanted(self._slow)
        return list(self._asked.values())

    def _wanted(self, fields: Mapping[int, Field]) -> _Asked:
        return {
            (rail, test): pair_of(sorted(one.stand[member] for member in test.members))
            for rail, one in fields.items()
            for test in one.localiser.next_round()
        }

    def _fields_of_speed(self) -> dict[int, Field]:
        """Localisers that know how fast the pairs were that did not fail; none where nothing is slow, or where parts do
        not reach each other: then it is known what is wrong, and most pairs are not to be had."""
        seen = [one for _, round_ in self._played for one in round_]
        self._below = slow_below(seen)
        verdicts = {rail: one.localiser.verdict() for rail, one in self._failing.items()}
        if not self.any_slow or any(verdict.partitions or verdict.systemic for verdict in verdicts.values()):
            return {}
        self._out = {rail: frozenset(verdict.faulty) for rail, verdict in verdicts.items()}
        self._apart = {one.test.members for one in seen if one.test.outcome in _FAILED}
        fields = self._new_fields()
        for asked, round_ in self._played:
            self._weigh(fields, asked, with_slow(round_, self._below))
        return fields

    def _as_asked(self, pair: Pair) -> tuple[int, Test]:
        if self._of_devices:
            return 0, Test(frozenset(member.place for member in pair))
        first = (pair[0].host, pair[0].device)
        rail = next(rail for rail, one in self._failing.items() if one.stand.get(first[0]) == first)
        return rail, Test(frozenset(member.host for member in pair))

    def take(self, seen: Sequence[Observation]) -> None:
        """What came of the pairs asked for; those of which there is nothing were not run."""
        self._played.append((self._asked, seen))
        if self._slow is None:
            self._weigh(self._failing, self._asked, seen)
        else:
            self._weigh(self._slow, self._asked, with_slow(seen, self._below))
        self._asked = {}

    def _weigh(self, fields: Mapping[int, Field], asked: _Asked, seen: Iterable[Observation]) -> None:
        """Without what was seen of members that a field does not have, or that failed when it is asked who is slow."""
        of_pair = defaultdict(list)
        for one in seen:
            of_pair[one.test.members].append(one)
        for rail, one_field in fields.items():
            own = {test: of_pair[pair] for (of, test), pair in asked.items() if of == rail}
            if fields is not self._failing:
                own = {
                    test: those
                    for test, those in own.items()
                    if not test.members & self._out[rail] and not any(one.test.outcome in _FAILED for one in those)
                }
            one_field.add(own)

    @property
    def observations(self) -> list[Observation]:
        """All that was seen, the slow ones called slow."""
        return [one for _, round_ in self._played for one in with_slow(round_, self._below)]

    @property
    def any_slow(self) -> bool:
        return any(seen.test.outcome is TestOutcome.SLOW for seen in self.observations)

    def located(self) -> tuple[Located, ...]:
        """Whom the tests name."""
        named: list[Located] = []
        for fields in (self._failing, self._slow or {}):
            found = merge({rail: one.rail for rail, one in fields.items()})
            of_these = tuple(located(one, fields, of_devices=self._of_devices) for one in found)
            whole = self._of_devices and len(self._plan.hosts) == 2
            named += _with_rails(of_these) if whole else of_these
        return tuple(named)


def _pair(places: Mapping[str, Place], one: str, other: str) -> Pair:
    return pair_of(sorted((places[one], places[other])))


def _with_rails(named: Sequence[Located]) -> tuple[Located, ...]:
    """Of two hosts, the two ends of a rail that are named for the same are the rail."""
    ends: dict[tuple[str, TestOutcome], list[Located]] = defaultdict(list)
    for one in named:
        if one.kind == "device":
            ends[one.members[0].partition("/")[2], one.outcome].append(one)
    rails = [both for both in ends.values() if len(both) == 2]
    inside = [one for both in rails for one in both]
    whole = [
        Located("rail", (a.members[0], b.members[0]), tuple(dict.fromkeys((*a.tests, *b.tests))), a.outcome)
        for a, b in rails
    ]
    return (*whole, *(one for one in named if one not in inside))


class GroupSearch:
    """Where everybody together fails and the pairs do not: which hosts, all their devices together, is it? `places`:
    the devices that take part. `seen`: what was seen so far, of which tests of all devices of their hosts alone say
    something here. `limit`: rounds, as many as it takes to halve all twice, and a few to repeat what failed."""

    def __init__(self, places: Iterable[Place], seen: Iterable[Observation], seed: int) -> None:
        own: dict[str, set[Place]] = defaultdict(set)
        for place in places:
            own[place[0]].add(place)
        self._own = own
        self._field = Field(Localiser(own, seed=seed), dict.fromkeys(own))
        self._asked: dict[frozenset[str], Test] = {}
        self.limit = 2 * len(own).bit_length() + 4
        self._field.add({Test(names): those for names, those in self._by_hosts(seen).items() if len(names) > 1})

    def _by_hosts(self, seen: Iterable[Observation]) -> dict[frozenset[str], list[Observation]]:
        of_group = defaultdict(list)
        for one in seen:
            members = {(member.host, member.device) for member in one.test.members}
            names = frozenset(host for host, _ in members)
            if names <= self._own.keys() and members == set().union(*(self._own[name] for name in names)):
                of_group[names].append(one)
        return of_group

    def next_groups(self) -> list[frozenset[str]]:
        """The hosts of each group of the next round, disjoint; empty when there is nothing more to learn."""
        self._asked = {test.members: test for test in self._field.localiser.next_round()}
        return list(self._asked)

    def take(self, seen: Iterable[Observation]) -> None:
        of_group = self._by_hosts(seen)
        self._field.add({test: of_group.get(names, []) for names, test in self._asked.items()})

    def located(self) -> tuple[Located, ...]:
        return tuple(located(one, {0: self._field}) for one in merge({0: self._field.rail}))
