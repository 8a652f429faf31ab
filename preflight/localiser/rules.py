"""The rules of conviction: what evidence is enough to name whom. Pure; each rule is one function with its reason."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import comb

from preflight.localiser.evidence import Evidence
from preflight.localiser.matching import MayMeet, anybody
from preflight.localiser.types import Group, Member, Test, Tests

MOST = 24  # accusations after which nobody asks any further
_STREAK = 3  # passes in a row after which a failure that did not repeat is forgotten
ACROSS = 4  # failures between two islands that call them apart
FEW = 2  # failures that did not repeat, in a run
_CHANCE = 0.05  # how often a run may call somebody intermittent who only had bad luck


class Rules:
    """The rules, applied to evidence that does not change while this is used."""

    def __init__(self, members: Sequence[Member], evidence: Evidence, may_meet: MayMeet = anybody) -> None:
        self.members, self.evidence, self.may_meet = members, evidence, may_meet

    @cached_property
    def good(self) -> list[Member]:
        return [member for member in self.members if self.evidence.good(member)]

    @property
    def again(self) -> int:
        """Failures that are no accident where something else speaks for the same."""
        return self.evidence.needed // 2 + 1

    @cached_property
    def islands(self) -> dict[Member, list[Member]]:
        """Good members, by the island they belong to."""
        islands: dict[Member, list[Member]] = defaultdict(list)
        for member in self.good:
            islands[self.evidence.island(member)].append(member)
        return dict(islands)

    @cached_property
    def crossings(self) -> dict[Group, list[Group]]:
        """Pairs that failed and never passed, by the two islands to which their ends belong."""
        crossings: dict[Group, list[Group]] = defaultdict(list)
        for pair in self.evidence.failed:
            ends = frozenset(map(self.evidence.island, pair))
            if len(pair) == 2 == len(ends) and ends <= self.islands.keys():
                crossings[ends].append(pair)
        return dict(crossings)

    @cached_property
    def apart(self) -> dict[Group, list[Group]]:
        """Islands that do not reach each other: several tests failed, with different members on both sides, and none
        passed. One failed pair would be a link, failures that share an end would be that member's. Pairs that failed
        before their ends were good do not count: islands grow along what passes, so that bad links come to lie between
        them; nor, in a run with accidents, those that failed once."""
        apart = {}
        for ends, crossings in self.crossings.items():
            pairs = [pair for pair in crossings if pair in self.evidence.good_ends and self._again(pair)]
            touched = Counter(self.evidence.island(member) for member in frozenset().union(*pairs))
            failures = sum(len(self.evidence.failed[pair]) for pair in pairs)
            if failures >= ACROSS and all(touched[end] > 1 for end in ends):
                apart[ends] = pairs
        return apart

    def _again(self, pair: Group) -> bool:
        return len(self.evidence.failed[pair]) > self.evidence.contradicted

    @cached_property
    def separate(self) -> set[Member]:
        """Islands that are apart from at least one other."""
        return set().union(*self.apart)

    @cached_property
    def condemned(self) -> dict[Member, Tests]:
        """Suspects that failed with enough partners, all of them good with others, on every side of a partition."""
        return {
            member: tuple(accusation.test for accusation in accusations)
            for member, accusations in sorted(self.evidence.accusations.items())
            if self._condemned(member)
        }

    def _condemned(self, member: Member) -> bool:
        """The finding does not count: many are tested, so a few fail by accident; their retests seldom do."""
        accusations, needed = self.evidence.accusations[member], self.evidence.needed
        proven = [
            accusation.by for accusation in accusations if accusation.proven and self.evidence.good(accusation.by)
        ]
        partners = set(proven)
        return (
            len(proven) >= needed
            and len(accusations) > needed
            and len(partners) >= max(2, min(needed, len(self.good)))
            and not self.not_heard(member)
        )

    def not_heard(self, member: Member) -> set[Member]:
        """Sides of a partition that have not accused a suspect often enough: it may belong there. Seen from the other
        sides it fails like all who do."""
        accused = self.evidence.accusations.get(member, ())
        sides = Counter(
            self.evidence.island(held.by) for held in accused if held.proven and self.evidence.good(held.by)
        )
        return {side for side in self.separate if sides[side] < self.again}

    @cached_property
    def alone(self) -> list[Member]:
        """The condemned who did not fail with another suspect yet. A small part of the cluster that is cut off fails
        with everybody else, too; only among themselves do they pass."""
        accusations, suspect = self.evidence.accusations, self.evidence.suspect
        return [member for member in self.condemned if not any(suspect(held.by) for held in accusations[member])]

    @cached_property
    def convicted(self) -> dict[Member, Tests]:
        """The condemned, once it is known that they are no part that is cut off. The last of an odd number stands
        for itself: those with whom it could be cut off failed with each other, or cannot be tested with it."""
        alone = self.alone
        waiting = {one for one in alone if any(other != one and self.may_meet(one, other) for other in alone)}
        return {member: tests for member, tests in self.condemned.items() if member not in waiting}

    @cached_property
    def wavering(self) -> Counter[Member]:
        """Members of pairs that failed and passed, and in how many."""
        return Counter(member for group in self.transient if len(group) == 2 for member in group)

    def believed(self, pair: Group) -> bool:
        """Whether a pair failed often enough to be a link; more often, where one of its ends failed with others, too,
        and passed when that was tried again: it may be the end that fails now and then."""
        wavering = any(member in self.wavering for member in pair)
        return len(self.evidence.failed[pair]) > self.evidence.needed * (2 if wavering else 1)

    @cached_property
    def links(self) -> dict[Group, Tests]:
        """Pairs that always failed, although both ends passed with others since, and reach each other through them."""
        return {
            pair: tuple(self.evidence.failed[pair])
            for pair in self.evidence.open_pairs()
            if self.believed(pair)
            and not self.stale(pair)
            and not self.flickering.intersection(pair)
            and len(set(map(self.evidence.island, pair))) == 1
        }

    @cached_property
    def flickering(self) -> set[Member]:
        """Who fails now and then beyond doubt: nobody asks about it, or about its links, any further. What always
        fails does not count here: it may become a link."""
        always = frozenset(pair for pair in self.evidence.failed if pair not in self.evidence.passed)
        return set(self._beyond_chance(but=always))

    def stale(self, pair: Group) -> list[Member]:
        """The ends that did not pass since the pair failed: they may have died in between."""
        since = self.evidence.first_failure[pair]
        return sorted(member for member in pair if self.evidence.last_pass[member] < since)

    @cached_property
    def partitions(self) -> dict[Group, Tests]:
        """Groups that are whole in themselves, with nothing across: a leaf's uplink, a VLAN, a switch set on some."""
        across: dict[Member, list[Test]] = defaultdict(list)
        for ends, pairs in self.apart.items():
            tests = [test for pair in pairs for test in self.evidence.failed[pair]]
            for end in ends:
                across[end] += tests
        return {frozenset(self.islands[end]): tuple(tests) for end, tests in across.items()}

    @cached_property
    def transient(self) -> dict[Group, Tests]:
        failed, passed = self.evidence.failed, self.evidence.passed
        return {group: tuple(tests) for group, tests in failed.items() if group in passed}

    @cached_property
    def doubtful(self) -> list[Member]:
        """Who may fail now and then: members of pairs that failed and passed. A few passes in a row are asked of them;
        where accidents are frequent, only of those who had two."""
        frequent = len(self.transient) > FEW
        return [
            member
            for member, pairs in sorted(self.wavering.items())
            if pairs > frequent
            and self.evidence.streak[member] < _STREAK
            and member not in self.intermittent
            and sum(map(len, self.evidence.tried[member].values())) < MOST
        ]

    def explained(self, group: Iterable[Member]) -> bool:
        """Whether something else than its size makes a group fail: a suspect, a link, a partition in it, or it was an
        accident."""
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
        """Good members with failures that no link explains, with different partners, and more of them than the run's
        accidents would bring."""
        return self._beyond_chance(but=frozenset(self.links))

    def _beyond_chance(self, but: frozenset[Group]) -> dict[Member, Tests]:
        unexplained: dict[Member, dict[Member, list[Test]]] = defaultdict(dict)
        total = 0
        for pair, tests in self.evidence.failed.items():
            within = frozenset(map(self.evidence.island, pair)) not in self.apart
            if len(pair) == 2 and pair not in but and within and all(map(self.evidence.good, pair)):
                a, b = pair
                unexplained[a][b] = unexplained[b][a] = tests
                total += len(tests)
        named = {}
        for member, by_partner in sorted(unexplained.items()):
            failures = [test for tests in by_partner.values() for test in tests]
            own = sum(map(len, self.evidence.tried[member].values()))
            rate = (total - len(failures)) / max(1, self.evidence.results - own)
            if len(by_partner) > 1 and len(self.members) * _at_least(len(failures), own, rate) <= _CHANCE:
                named[member] = tuple(failures)
        return named

    @property
    def systemic(self) -> str:
        failed = sum(map(len, self.evidence.failed.values()))
        pairs = sum(len(tests) for group, tests in self.evidence.failed.items() if len(group) == 2)
        if self.evidence.passed or pairs < 2 or len(self.members) < 3:
            return ""
        return f"no test passed, {failed} failed: what is wrong concerns more than half of all, or everybody"


def _at_least(count: int, of: int, rate: float) -> float:
    """The probability of so many accidents or more."""
    return sum(comb(of, k) * rate**k * (1 - rate) ** (of - k) for k in range(count, of + 1))
