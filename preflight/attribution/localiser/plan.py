"""The tests of the next round: one function for each reason to test, the most urgent first. Pure.

Tests of a round run at the same time, so that more tests cost no time, but another round does. A member takes part in
at most one test of a round.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from preflight.attribution.localiser.matching import MayMeet, pair_up
from preflight.attribution.localiser.partners import Partners
from preflight.attribution.localiser.rules import FAILURES_APART, FEW_TRANSIENTS, MAX_TESTS, Rules
from preflight.attribution.localiser.scale import ScaleSearch
from preflight.attribution.localiser.types import Group, Member

_SEARCH_FACTOR = 4  # times the logarithm of all members: groups that are tested to find the smallest that fails
_BLIND_ROUNDS = 3  # while nothing passes; `pair_up` says why three are enough


class Planner:
    """One round. `free`: members that no running test uses. `may_meet`: whether two can be tested together."""

    def __init__(
        self,
        rules: Rules,
        free: Iterable[Member],
        order: Sequence[Member],
        topology: Mapping[Member, object],
        may_meet: MayMeet,
    ) -> None:
        self.rules, self.evidence = rules, rules.evidence
        self.order, self.topology, self.may_meet = order, topology, may_meet
        self.free = {member for member in free if not self.evidence.absent(member)}
        self.groups: list[Group] = []

    def fill(self) -> list[Group]:
        """Return the groups to test, which are disjoint."""
        all_free = len(self.free) == sum(not self.evidence.absent(member) for member in self.order)
        unproven = self._pair_behind_leaves(self._unproven())
        unproven = self._pair_islands(unproven)
        unproven = self._pair_with_good(unproven)
        self._pair_unproven(unproven)
        self._retest_failed_pairs(within_island=True)
        self._pair_confirmed()
        self._connect_islands()
        self._retest_failed_pairs(within_island=False)
        if not self.groups and all_free:
            self._search_smallest()
        return self.groups

    def _take(self, members: Iterable[Member]) -> bool:
        group = frozenset(members)
        if not group <= self.free:
            return False
        self.free -= group
        self.groups.append(group)
        return True

    def _take_pairs(self, members: Sequence[Member], may_meet: MayMeet) -> None:
        for pair in pair_up(members, may_meet):
            self._take(pair)

    def _may_meet_first(self, member: Member, partner: Member) -> bool:
        return partner not in self.evidence.tried[member] and self.may_meet(member, partner)

    def _unproven(self) -> list[Member]:
        """Return free members that have to show that they are good.

        These are suspects, untried members, members that may have died since they passed, and those that may be
        intermittent.
        """
        doubted = {member for pair in self.evidence.open_pairs() for member in self.rules.stale(pair)}
        doubted.update(self.rules.doubtful, self.evidence.not_run)
        return [
            member for member in self.order if member in self.free and (member in doubted or self._needs_proof(member))
        ]

    def _needs_proof(self, member: Member) -> bool:
        if self.evidence.good(member) or member in self.rules.confirmed:
            return False
        failures = len(self.evidence.suspicions.get(member, ()))
        return failures < MAX_TESTS and not self._is_exhausted(member, failures)

    def _is_exhausted(self, member: Member, failures: int) -> bool:
        """Return whether all good members that may meet it were tried with it several times."""
        tried, good = self.evidence.tried[member], self.rules.good
        return 0 < len(good) <= failures and all(
            len(tried.get(partner, ())) > self.evidence.failures_needed
            for partner in good
            if self.may_meet(member, partner)
        )

    def _pair_behind_leaves(self, unproven: Sequence[Member]) -> list[Member]:
        """Pair suspects behind the same leaf, if no member behind it has passed yet, once. Return those without a pair.

        The leaf may be cut off. Then its members fail with all others.
        """
        leaf, tried = self.topology.get, self.evidence.tried
        unsuspected = {None, *map(leaf, self.evidence.last_pass)}
        suspects = [member for member in unproven if leaf(member) not in unsuspected and tried[member]]
        for neighbours in _grouped(suspects, leaf):
            self._take_pairs(neighbours, self._may_meet_first)
        return [member for member in unproven if member in self.free]

    def _pair_islands(self, unproven: Sequence[Member]) -> list[Member]:
        """Pair members of an island of which no member is good any more. Return those without a pair.

        The island may be on the far side of a partition. Then its members fail with all others.
        """
        island = self.evidence.island
        fallen = [
            member
            for member in unproven
            if member in self.evidence.last_pass and not self.rules.islands.get(island(member))
        ]
        for members in _grouped(fallen, island):
            self._take_pairs(members, self.may_meet)
        return [member for member in unproven if member in self.free]

    def _pair_with_good(self, unproven: Sequence[Member]) -> list[Member]:
        """Pair each with a good member, since such a test gives most information. Return those without a pair."""
        partners = Partners(self.rules, self.free.difference(unproven), self.topology, self.may_meet)
        for member in unproven:
            partner = partners.take_for(member)
            if partner is not None:
                self._take((member, partner))
        return [member for member in unproven if member in self.free]

    def _pair_unproven(self, unproven: Sequence[Member]) -> None:
        """Pair members for which no good one is free, each two of them once.

        While nothing passes, they are paired for a few rounds only. A cluster of two is tested once again, since its
        failure may have been an accident.
        """
        if not self.rules.good:
            unproven = [member for member in unproven if len(self.evidence.tried[member]) < _BLIND_ROUNDS]
        self._take_pairs(unproven, self._may_meet_first)
        if len(self.order) == 2 and not self.groups and len(self.evidence.failed.get(frozenset(self.order), ())) == 1:
            self._take(self.order)

    def _retest_failed_pairs(self, *, within_island: bool) -> None:
        """Retest failed pairs, to distinguish link faults from accidents. Pairs between islands come later, since the
        islands may be apart."""
        for pair in self.evidence.open_pairs():
            islands = frozenset(map(self.evidence.island, pair))
            settled = self.rules.believed(pair) or islands in self.rules.apart or self.rules.surely_intermittent & pair
            if within_island == (len(islands) == 1) and not settled and not self.rules.stale(pair):
                self._take(pair)

    def _pair_confirmed(self) -> None:
        """Pair confirmed suspects, those behind the same leaf first: they may be a part that is cut off."""
        leaves = _grouped(self.rules.without_fellow, self.topology.get)
        self._take_pairs([member for leaf in leaves for member in leaf], self.may_meet)

    def _connect_islands(self) -> None:
        """Test a chain through all islands once anything has failed, until they are one, or known to be apart.

        Before that, members may be good on two sides of a partition, and a suspect may have been tried with the other
        side only.
        """
        if not self.evidence.failed:
            return
        ends = self._free_by_island()
        self._test_chain(ends)
        for islands, pairs in sorted(self.rules.crossings.items(), key=lambda crossing: len(crossing[1])):
            tested = len(self.evidence.good_ends.intersection(pairs))
            if islands not in self.rules.apart and tested < 2 * FAILURES_APART:  # beyond that, these pairs are retested
                near, far = (ends[root] for root in islands)
                self._test_across(near, far, frozenset().union(*pairs))

    def _free_by_island(self) -> dict[Member, list[Member]]:
        """Return the free members of each island, with islands behind the same leaf next to each other.

        That leaf's uplink may separate them. Ends of open pairs come first in each, so that they are taken last: a test
        of the pair itself gives more information.
        """
        by_leaf = sorted(self.order, key=lambda member: str(self.topology.get(member)))
        place = {member: number for number, member in enumerate(by_leaf)}
        open_ends = {member for pair in self.evidence.open_pairs() for member in pair}
        return {
            root: sorted(filter(self.free.__contains__, members), key=lambda member: member not in open_ends)
            for root, members in sorted(self.rules.islands.items(), key=lambda island: place[island[1][0]])
        }

    def _test_chain(self, ends: Mapping[Member, list[Member]]) -> None:
        waiting = deque(root for root, members in ends.items() if members)
        while len(waiting) > 1:
            root = waiting.popleft()
            following = (after for after in waiting if frozenset((root, after)) not in self.rules.crossings)
            after = next(following, None)
            if after is not None and self._take_one_of_each(ends[root], ends[after]):
                waiting.remove(after)
                if ends[after]:
                    waiting.appendleft(after)

    def _take_one_of_each(self, near: list[Member], far: list[Member]) -> bool:
        for a in reversed(near):
            for b in reversed(far):
                if self.may_meet(a, b) and self._take((a, b)):
                    near.remove(a)
                    far.remove(b)
                    return True
        return False

    def _test_across(self, near: list[Member], far: list[Member], touched: Group) -> None:
        """Test new pairs between two islands where one failed, as many as show whether it is a link or a partition."""
        begun = len(self.groups)
        for member in sorted(near, key=touched.__contains__):
            fresh = [partner for partner in far if partner in self.free and self._may_meet_first(member, partner)]
            if fresh and len(self.groups) - begun < FAILURES_APART:
                self._take((member, min(fresh, key=touched.__contains__)))

    def _search_smallest(self) -> None:
        for search in scale_searches(self.rules, self.order):
            for group in search.wanted:
                self._take(group)


def scale_searches(rules: Rules, order: Sequence[Member]) -> list[ScaleSearch]:
    """Return a search for every failing group that only its size explains, without groups that are parts of others."""
    failed, passed = rules.evidence.failed, rules.evidence.passed
    limit = _SEARCH_FACTOR * len(order).bit_length()
    searches = []
    for group in _failing_by_size(rules):
        search = ScaleSearch(rules.evidence, rules.evidence.failures_needed // 2, limit)
        search.halve([member for member in order if member in group])
        searches.append(search)
    # A search leads nowhere where answers change from one time to the next, or too many were needed already.
    if _count_larger(rules.transient) > FEW_TRANSIENTS or _count_larger((*failed, *passed)) > 2 * limit:
        for search in searches:
            search.wanted.clear()
    return searches


def _failing_by_size(rules: Rules) -> list[Group]:
    larger = [group for group in rules.evidence.failed if len(group) > 2 and not rules.explained(group)]
    return [group for group in larger if not any(group < whole for whole in larger)]


def _count_larger(groups: Iterable[Group]) -> int:
    return sum(len(group) > 2 for group in groups)


def _grouped(members: Iterable[Member], key: Callable[[Member], object]) -> Iterable[list[Member]]:
    groups: dict[object, list[Member]] = defaultdict(list)
    for member in members:
        groups[key(member)].append(member)
    return groups.values()
