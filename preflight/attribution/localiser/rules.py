"""The evidence that is enough to identify a fault. Pure: each rule is one function with its reason."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from math import comb

from preflight.attribution.localiser.evidence import Evidence
from preflight.attribution.localiser.matching import MayMeet, any_pair
from preflight.attribution.localiser.types import Group, Member, Test, Tests

MAX_TESTS = 24  # of a member, or failures of a suspect, after which it is not tested any further
FAILURES_APART = 4  # between two islands, before they count as parts of a partition
FEW_TRANSIENTS = 2  # in a run; with more, accidents are frequent
_STREAK = 3  # passes in a row after which a failure that did not repeat is forgotten
_CHANCE = 0.05  # probability that a run calls a member intermittent that failed by accident


class Rules:
    """The rules, applied to evidence that does not change while they are used."""

    def __init__(self, members: Sequence[Member], evidence: Evidence, may_meet: MayMeet = any_pair) -> None:
        self.members, self.evidence, self.may_meet = members, evidence, may_meet

    @cached_property
    def good(self) -> list[Member]:
        return [member for member in self.members if self.evidence.good(member)]

    @cached_property
    def islands(self) -> dict[Member, list[Member]]:
        """Good members by their island."""
        islands: dict[Member, list[Member]] = defaultdict(list)
        for member in self.good:
            islands[self.evidence.island(member)].append(member)
        return dict(islands)

    @cached_property
    def crossings(self) -> dict[Group, list[Group]]:
        """Pairs that failed and never passed, by the two islands of their ends."""
        crossings: dict[Group, list[Group]] = defaultdict(list)
        for pair in self.evidence.failed:
            ends = frozenset(map(self.evidence.island, pair))
            if len(pair) == 2 == len(ends) and ends <= self.islands.keys():
                crossings[ends].append(pair)
        return dict(crossings)

    @cached_property
    def apart(self) -> dict[Group, list[Group]]:
        """Islands that do not reach each other, with the pairs that show it.

        Several tests failed, with different members on both sides, and none passed. One failed pair would be a link,
        and failures that share an end would be that member's. Pairs that failed before their ends were good do not
        count: islands grow along passes, so that bad links end up between them. In a run with accidents, pairs that
        failed only once do not count either.
        """
        apart = {}
        for ends, crossings in self.crossings.items():
            pairs = [pair for pair in crossings if pair in self.evidence.good_ends and self._repeated(pair)]
            touched = Counter(self.evidence.island(member) for member in frozenset().union(*pairs))
            failures = sum(len(self.evidence.failed[pair]) for pair in pairs)
            if failures >= FAILURES_APART and all(touched[end] > 1 for end in ends):
                apart[ends] = pairs
        return apart

    def _repeated(self, pair: Group) -> bool:
        return len(self.evidence.failed[pair]) > self.evidence.contradicted

    @cached_property
    def separate(self) -> set[Member]:
        """Islands that are apart from at least one other."""
        return set().union(*self.apart)

    @cached_property
    def confirmed(self) -> dict[Member, Tests]:
        """Suspects that failed with enough partners, all good with others, on every side of a partition."""
        return {
            member: tuple(suspicion.test for suspicion in suspicions)
            for member, suspicions in sorted(self.evidence.suspicions.items())
            if self._is_confirmed(member)
        }

    def _is_confirmed(self, member: Member) -> bool:
        """Require one failure more than needed: of many members a few fail first by accident, but seldom in retests."""
        suspicions, needed = self.evidence.suspicions[member], self.evidence.failures_needed
        partners = self._proven_partners(member)
        return (
            len(partners) >= needed
            and len(suspicions) > needed
            and len(set(partners)) >= max(2, min(needed, len(self.good)))
            and not self.sides_to_ask(member)
        )

    def _proven_partners(self, member: Member) -> list[Member]:
        """Return the partners, still good, of the member's proven suspicions, one for each test."""
        return [
            suspicion.partner
            for suspicion in self.evidence.suspicions.get(member, ())
            if suspicion.proven and self.evidence.good(suspicion.partner)
        ]

    def sides_to_ask(self, member: Member) -> set[Member]:
        """Return the sides of a partition with which a suspect has not failed often enough.

        It may belong to one of them: all other sides see it fail like every member of that side.
        """
        sides = Counter(map(self.evidence.island, self._proven_partners(member)))
        enough = self.evidence.failures_needed // 2 + 1  # no accident, where suspicions of other sides agree
        return {side for side in self.separate if sides[side] < enough}

    @cached_property
    def without_fellow(self) -> list[Member]:
        """Confirmed suspects that did not fail with another suspect yet.

        Members of a small part that is cut off fail with all others, too. Only among themselves do they pass.
        """
        suspects = self.evidence.suspicions
        return [
            member
            for member in self.confirmed
            if not any(suspicion.partner in suspects for suspicion in suspects[member])
        ]

    @cached_property
    def faulty(self) -> dict[Member, Tests]:
        """Confirmed suspects that are not known to belong to a part that is cut off.

        The last of an odd number needs no further test: those with which it could be cut off failed with each other,
        or cannot be tested with it.
        """
        untested = self.without_fellow
        waiting = {a for a in untested if any(a != b and self.may_meet(a, b) for b in untested)}
        return {member: tests for member, tests in self.confirmed.items() if member not in waiting}

    @cached_property
    def transient(self) -> dict[Group, Tests]:
        """Groups that failed and passed."""
        failed, passed = self.evidence.failed, self.evidence.passed
        return {group: tuple(tests) for group, tests in failed.items() if group in passed}

    @cached_property
    def transient_pairs(self) -> Counter[Member]:
        """Number of transient pairs for each member."""
        return Counter(member for group in self.transient if len(group) == 2 for member in group)

    def believed(self, pair: Group) -> bool:
        """Return whether a pair failed often enough to be a link.

        An end that failed with others and then passed with them may be intermittent. Such a pair needs twice as many
        failures.
        """
        factor = 2 if any(member in self.transient_pairs for member in pair) else 1
        return len(self.evidence.failed[pair]) > self.evidence.failures_needed * factor

    @cached_property
    def links(self) -> dict[Group, Tests]:
        """Pairs that always failed, although both ends passed with others since and reach each other through them."""
        return {
            pair: tuple(self.evidence.failed[pair])
            for pair in self.evidence.open_pairs()
            if self.believed(pair)
            and not self.stale(pair)
            and not self.surely_intermittent.intersection(pair)
            and len(set(map(self.evidence.island, pair))) == 1
        }

    @cached_property
    def surely_intermittent(self) -> set[Member]:
        """Members that are intermittent without the pairs that always failed, which may become links.

        Neither these members nor their links are tested any further.
        """
        always = frozenset(pair for pair in self.evidence.failed if pair not in self.evidence.passed)
        return set(self._beyond_chance(without=always))

    def stale(self, pair: Group) -> list[Member]:
        """Return the ends that did not pass since the pair failed: they may have died in between."""
        since = self.evidence.first_failure[pair]
        return sorted(member for member in pair if self.evidence.last_pass[member] < since)

    @cached_property
    def partitions(self) -> dict[Group, Tests]:
        """Islands in which all passes and from which another one is not reached: an uplink, a VLAN, some switches."""
        across: dict[Member, list[Test]] = defaultdict(list)
        for ends, pairs in self.apart.items():
            tests = [test for pair in pairs for test in self.evidence.failed[pair]]
            for end in ends:
                across[end] += tests
        return {frozenset(self.islands[end]): tuple(tests) for end, tests in across.items()}

    @cached_property
    def doubtful(self) -> list[Member]:
        """Members of transient pairs, which may be intermittent and have to pass a few times in a row.

        Only members with two such pairs count, where accidents are frequent.
        """
        frequent = len(self.transient) > FEW_TRANSIENTS
        return [
            member
            for member, pairs in sorted(self.transient_pairs.items())
            if pairs > frequent
            and self.evidence.streak[member] < _STREAK
            and member not in self.intermittent
            and sum(map(len, self.evidence.tried[member].values())) < MAX_TESTS
        ]

    def explained(self, group: Iterable[Member]) -> bool:
        """Return whether a suspect, a link, a partition or an accident makes a group fail, and not its size."""
        members = frozenset(group)
        return (
            members in self.evidence.passed
            or not members <= set(self.good)
            or any(
                len(pair) == 2 and pair <= members for pair in self.evidence.failed if pair not in self.evidence.passed
            )
            or any(all(members & set(self.islands[end]) for end in ends) for ends in self.apart)
        )

    @cached_property
    def intermittent(self) -> dict[Member, Tests]:
        """Good members that failed with different partners, more often than by accident, and not through a link."""
        return self._beyond_chance(without=frozenset(self.links))

    def _beyond_chance(self, without: frozenset[Group]) -> dict[Member, Tests]:
        failures: dict[Member, dict[Member, list[Test]]] = defaultdict(dict)  # by partner
        total = 0
        for pair, tests in self.evidence.failed.items():
            within = frozenset(map(self.evidence.island, pair)) not in self.apart
            if len(pair) == 2 and pair not in without and within and all(map(self.evidence.good, pair)):
                a, b = pair
                failures[a][b] = failures[b][a] = tests
                total += len(tests)
        return {
            member: tuple(chain.from_iterable(by_partner.values()))
            for member, by_partner in sorted(failures.items())
            if len(by_partner) > 1 and self._is_beyond_chance(member, sum(map(len, by_partner.values())), total)
        }

    def _is_beyond_chance(self, member: Member, failures: int, total: int) -> bool:
        """Compare a member's failures with the rate of failures in the tests without it."""
        tests = sum(map(len, self.evidence.tried[member].values()))
        rate = (total - failures) / max(1, self.evidence.tests_run - tests)
        return len(self.members) * _at_least(failures, tests, rate) <= _CHANCE

    @property
    def systemic(self) -> bool:
        """Nothing passed: more than half of the members are faulty, or the whole system."""
        pairs = sum(len(tests) for group, tests in self.evidence.failed.items() if len(group) == 2)
        return not self.evidence.passed and pairs > 1 and len(self.members) > 2


def _at_least(count: int, tests: int, rate: float) -> float:
    """Return the probability of at least so many failures in so many tests."""
    return sum(comb(tests, k) * rate**k * (1 - rate) ** (tests - k) for k in range(count, tests + 1))
