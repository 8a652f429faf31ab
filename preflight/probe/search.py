"""Search for culprits by rounds of pairs, and of larger groups, which the localiser chooses and interprets. Pure.

Failing pairs come first. Slow pairs come after that, among those that do not fail, since a slow pair is connected all
the same. If a pair fails while slow ones are searched for, the search for failing members goes on first.

Each rail has its own localiser over its hosts, and their verdicts are merged. Two hosts have no third one to compare
with along a rail. So the devices of both are the members of one localiser, those of different hosts are tried with each
other, and the first round goes along the rails. A single host's devices are the members of one localiser, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from preflight.attribution.localiser.combine_rails import merge
from preflight.attribution.localiser.localise import Localiser
from preflight.attribution.localiser.types import Test, Verdict
from preflight.model.measure import Located, Observation, TestOutcome
from preflight.model.peers import FEWEST
from preflight.probe.located import Field, locate
from preflight.probe.pairs import FEW, slow_below, with_slow
from preflight.probe.rounds import Pair, Place, ProbePlan, pair_of

Leaves = Mapping[Place, str]  # device → its switch, if that is known
_Requested = dict[tuple[int, Test], Pair]  # by rail and test of its localiser
_BROKEN = (TestOutcome.FAIL, TestOutcome.HANG, TestOutcome.WRONG_DATA)
_FAILED = (*_BROKEN, TestOutcome.NOT_RUN)


CRAWL = 0.1  # of the bandwidth below which a pair is slow


class Search:
    """The pairs of one run. `seed` decides on the members that meet in the first round."""

    def __init__(self, plan: ProbePlan, leaves: Leaves, seed: int) -> None:
        self._plan, self._leaves, self._seed = plan, leaves, seed
        hosts = len(plan.hosts)
        self._of_devices = hosts == 1 or (hosts == 2 and plan.request.backend != "gloo")
        self._below = 0.0  # GB/s; slower pairs are slow. Known once the failing members are known
        self._played: list[tuple[_Requested, Sequence[Observation]]] = []
        self._requested: _Requested = {}
        self._out: dict[int, frozenset[str]] = {}  # by rail: members that fail, which are not tested for speed
        self.asks_direction = False  # whether the requested pairs have to show which direction is slow
        self._suspects: set[str] = set()  # devices of pairs that failed
        self._crawling: set[str] = set()  # devices of pairs that crawl: one direction alone may take minutes
        self._apart: set[Pair] = set()  # pairs that fail, which are not tested for speed either
        self._failing = self._new_fields()
        self._slow: dict[int, Field] | None = None
        self._fixed = self._fixed_rounds()

    def _new_fields(self) -> dict[int, Field]:
        if self._of_devices:
            places = {f"{host}/{device}": (host, device) for host, device in self._plan.places()}
            return {0: self._new_field(0, places, {})}
        return {rail: self._new_field(rail, places, self._leaves) for rail, places in self._plan.rail_places().items()}

    def _new_field(self, rail: int, places: Mapping[str, Place], leaves: Leaves) -> Field:
        members = places.keys() - self._out.get(rail, ())
        topology = {member: leaves[places[member]] for member in members if places[member] in leaves}
        asks_plan = self._of_devices and len(self._plan.hosts) > 1

        def may_meet(first: str, second: str) -> bool:
            pair = sorted((places[first], places[second]))
            return pair_of(pair) not in self._apart and (not asks_plan or self._plan.may_meet(*pair))

        return Field(Localiser(members, topology=topology, seed=self._seed, may_meet=may_meet), places)

    def _fixed_rounds(self) -> list[list[Pair]]:
        """Return rounds that the localiser does not choose.

        For two hosts they go along the rails. Otherwise they are all neighbours, if one round of pairs is too few to
        know the usual speed, and all of them are enough.
        """
        matchings = [pairs for pairs in self._plan.neighbours() if pairs]
        if self._of_devices:
            return matchings if len(self._plan.hosts) == 2 else []
        few = matchings and len(matchings[0]) < FEWEST
        return matchings if few and sum(map(len, matchings)) >= FEW else []

    def next_pairs(self) -> list[Pair]:
        """Return the pairs of the next round, disjoint, or none if there is nothing more to learn."""
        if self._fixed:
            self._requested = {self._request_of(pair): pair for pair in self._fixed.pop(0)}
            return list(self._requested.values())
        self._requested, self.asks_direction = self._next_tests(self._failing), False
        if not self._requested:
            if self._slow is None:
                self._slow = self._fields_of_speed()
            self._requested = self._next_tests(self._slow)
            places = {member.place for pair in self._requested.values() for member in pair}
            self.asks_direction = self._crawling.isdisjoint(places)
        return list(self._requested.values())

    def _next_tests(self, fields: Mapping[int, Field]) -> _Requested:
        return {
            (rail, test): pair_of(sorted(rail_field.places[member] for member in test.members))
            for rail, rail_field in fields.items()
            for test in rail_field.localiser.next_round()
        }

    def _fields_of_speed(self) -> dict[int, Field]:
        """Return localisers that know the speeds of the pairs that did not fail.

        There are none if no pair is slow, or if parts do not reach each other. Then the fault is known, and most pairs
        cannot be tested.
        """
        observations = [observation for _, round_ in self._played for observation in round_]
        self._below = slow_below(observations)
        verdicts = {rail: rail_field.localiser.verdict() for rail, rail_field in self._failing.items()}
        if not self.any_slow or any(map(_splits, verdicts.values())):
            return {}
        self._out = {rail: frozenset(verdict.faulty) for rail, verdict in verdicts.items()}
        self._apart = {observation.test.members for observation in observations if observation.test.outcome in _FAILED}
        fields = self._new_fields()
        for pairs, round_ in self._played:
            self._add(fields, pairs, with_slow(round_, self._below))
        return fields

    def _request_of(self, pair: Pair) -> tuple[int, Test]:
        if self._of_devices:
            return 0, Test(frozenset(member.place for member in pair))
        first_place = (pair[0].host, pair[0].device)
        rail = next(
            rail for rail, rail_field in self._failing.items() if rail_field.places.get(first_place[0]) == first_place
        )
        return rail, Test(frozenset(member.host for member in pair))

    def take(self, observations: Sequence[Observation]) -> None:
        """Add the observations of the requested pairs. Pairs without any were not run."""
        self._played.append((self._requested, observations))
        broken = [observation.test for observation in observations if observation.test.outcome in _BROKEN]
        self._suspects |= {place for test in broken for place in test.places}
        self._add(self._failing, self._requested, self._with_slow_suspects(observations))
        if broken:
            self._slow = None  # a pair failed while speeds were compared: find the failing members first
        elif self._slow is not None:
            self._add(self._slow, self._requested, with_slow(observations, self._below))
        self._requested = {}

    def _add(self, fields: Mapping[int, Field], requested: _Requested, observations: Iterable[Observation]) -> None:
        """Add observations to the fields.

        Those of members that a field does not have are left out. In the search for slow pairs, failures are left out,
        too.
        """
        of_pair = defaultdict(list)
        for observation in observations:
            of_pair[observation.test.members].append(observation)
        for rail, rail_field in fields.items():
            results = {test: of_pair[pair] for (of_rail, test), pair in requested.items() if of_rail == rail}
            if fields is not self._failing:
                results = {
                    test: pair_observations
                    for test, pair_observations in results.items()
                    if not test.members & self._out[rail]
                    and not any(observation.test.outcome in _FAILED for observation in pair_observations)
                }
            rail_field.add(results)

    def _with_slow_suspects(self, observations: Sequence[Observation]) -> list[Observation]:
        """Mark pairs that crawl, of devices that have failed before. One that loses packets hangs or crawls, by chance.

        Other slow pairs count as passed: a slow pair is connected.
        """
        below = slow_below([observation for _, round_ in self._played for observation in round_])
        marked = with_slow(observations, CRAWL * below)
        crawling = [observation.test for observation in marked if observation.test.outcome is TestOutcome.SLOW]
        self._crawling |= {place for test in crawling for place in test.places}
        return [
            slow if self._suspects & observation.test.places else observation
            for slow, observation in zip(marked, observations, strict=True)
        ]

    @property
    def observations(self) -> list[Observation]:
        """All observations, with slow tests marked."""
        return [observation for _, round_ in self._played for observation in with_slow(round_, self._below)]

    @property
    def any_slow(self) -> bool:
        return any(observation.test.outcome is TestOutcome.SLOW for observation in self.observations)

    def located(self) -> tuple[Located, ...]:
        """Return the culprits that the tests identify."""
        all_culprits: list[Located] = []
        slow = self._fields_of_speed() if self._slow is None and self._below else self._slow  # rounds may end any time
        for fields in (self._failing, slow or {}):
            faults = merge({rail: rail_field.rail for rail, rail_field in fields.items()})
            culprits = tuple(locate(fault, fields, of_devices=self._of_devices) for fault in faults)
            between_two_hosts = self._of_devices and len(self._plan.hosts) == 2
            all_culprits += _with_rails(culprits) if between_two_hosts else culprits
        return tuple(all_culprits)


def _splits(verdict: Verdict) -> bool:
    """Return whether most pairs fail, because parts or all of a rail do not reach each other."""
    return bool(verdict.partitions or verdict.systemic)


def _with_rails(culprits: Sequence[Located]) -> tuple[Located, ...]:
    """Return the culprits of two hosts, with the two ends of a rail as the rail if both fail in the same way."""
    ends: dict[tuple[str, TestOutcome], list[Located]] = defaultdict(list)
    for culprit in culprits:
        if culprit.kind == "device":
            ends[culprit.members[0].partition("/")[2], culprit.outcome].append(culprit)
    rails = [two_ends for two_ends in ends.values() if len(two_ends) == 2]
    rail_ends = [culprit for two_ends in rails for culprit in two_ends]
    rail_culprits = [
        Located("rail", (a.members[0], b.members[0]), tuple(dict.fromkeys((*a.tests, *b.tests))), a.outcome)
        for a, b in rails
    ]
    return (*rail_culprits, *(culprit for culprit in culprits if culprit not in rail_ends))


class GroupSearch:
    """Search for the hosts that fail with all their devices together, if all together fail and pairs do not.

    `places`: the devices that take part. `observations`: those so far. Only tests of all devices of their hosts count
    here. `limit`: rounds, as many as it takes to halve all hosts twice, and a few to repeat failures.
    """

    def __init__(self, places: Iterable[Place], observations: Iterable[Observation], seed: int) -> None:
        places_by_host: dict[str, set[Place]] = defaultdict(set)
        for place in places:
            places_by_host[place[0]].add(place)
        self._own = places_by_host
        self._field = Field(Localiser(places_by_host, seed=seed), dict.fromkeys(places_by_host))
        self._requested: dict[frozenset[str], Test] = {}
        self.limit = 2 * len(places_by_host).bit_length() + 4
        of_group = self._by_hosts(observations)
        self._field.add({Test(names): group for names, group in of_group.items() if len(names) > 1})

    def _by_hosts(self, observations: Iterable[Observation]) -> dict[frozenset[str], list[Observation]]:
        of_group = defaultdict(list)
        for observation in observations:
            members = {(member.host, member.device) for member in observation.test.members}
            names = frozenset(host for host, _ in members)
            if names <= self._own.keys() and members == set().union(*(self._own[name] for name in names)):
                of_group[names].append(observation)
        return of_group

    def next_groups(self) -> list[frozenset[str]]:
        """Return the hosts of each group of the next round, disjoint, or none if there is nothing more to learn."""
        self._requested = {test.members: test for test in self._field.localiser.next_round()}
        return list(self._requested)

    def take(self, observations: Iterable[Observation]) -> None:
        of_group = self._by_hosts(observations)
        self._field.add({test: of_group.get(names, []) for names, test in self._requested.items()})

    def located(self) -> tuple[Located, ...]:
        return tuple(locate(fault, {0: self._field}) for fault in merge({0: self._field.rail}))
