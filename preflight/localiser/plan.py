"""What has to be tested next, and by whom: each need is one function, the most urgent first. Pure.

What is asked for in a round is done at the same time, so it costs no time to ask for much; what costs time is another
round. Members are given away once a round.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from preflight.localiser.matching import MayMeet, anybody, pair_up
from preflight.localiser.partners import Partners
from preflight.localiser.rules import ACROSS, FEW, MOST, Rules
from preflight.localiser.scale import Search
from preflight.localiser.types import Group, Member

_SEARCH = 4  # times the logarithm of all members: groups that are tried to find the smallest that fails
_BLIND_ROUNDS = 3  # as long as nothing passes; see `pair_up` for what they promise


class Planner:
    """Fills one round. `free`: who takes part in no test at the moment; `may_meet`: who may be tested with whom."""

    def __init__(
        self,
        rules: Rules,
        free: Iterable[Member],
        order: Sequence[Member],
        topology: Mapping[Member, object],
        may_meet: MayMeet = anybody,
    ) -> None:
        self.rules, self.evidence = rules, rules.evidence
        self.order, self.topology, self.may_meet = order, topology, may_meet
        self.free = {member for member in free if not self.evidence.absent(member)}
        self.groups: list[Group] = []

    def fill(self) -> list[Group]:
        nobody_busy = len(self.free) == sum(not self.evidence.absent(member) for member in self.order)
        seekers = self._with_good_partners(self._with_friends(self._behind_one_leaf(self._seekers())))
        self._among_themselves(seekers)
        self._failed_pairs_again(within=True)
        self._company()
        self._one_network()
        self._failed_pairs_again(within=False)
        if not self.groups and nobody_busy:
            self._smallest_failing()
        return self.groups

    def _leaf(self, member: Member) -> str:
        return str(self.topology.get(member))

    def _take(self, members: Iterable[Member]) -> bool:
        group = frozenset(members)
        if not group <= self.free:
            return False
        self.free -= group
        self.groups.append(group)
        return True

    def _unproven(self, member: Member) -> bool:
        if self.evidence.good(member) or member in self.rules.condemned:
            return False
        accused = len(self.evidence.accusations.get(member, ()))
        return accused < MOST and not self._exhausted(member, accused)

    def _exhausted(self, member: Member, accused: int) -> bool:
        """All good members with whom it can be tested have said of it what they can, several times."""
        tried, good = self.evidence.tried[member], self.rules.good
        return 0 < len(good) <= accused and all(
            len(tried.get(other, ())) > self.evidence.needed for other in good if self.may_meet(member, other)
        )

    def _seekers(self) -> list[Member]:
        """Who has to show that it is good: suspects, the untried, whoever may have died since it passed, and who may
        fail now and then."""
        asked = {member for pair in self.evidence.open_pairs() for member in self.rules.stale(pair)}
        asked.update(self.rules.doubtful, self.evidence.not_run)
        return [member for member in self.order if member in self.free and (member in asked or self._unproven(member))]

    def _behind_one_leaf(self, seekers: Sequence[Member]) -> list[Member]:
        """Those behind a leaf of whom nobody has passed yet with each other, once: the leaf may be cut off, and then
        everybody elsewhere accuses them. Those who got no partner are returned."""
        leaf, tried = self.topology.get, self.evidence.tried
        well = {leaf(member) for member in self.evidence.last_pass}
        behind: dict[object, list[Member]] = defaultdict(list)
        for member in seekers:
            if leaf(member) is not None and leaf(member) not in well and tried[member]:
                behind[leaf(member)].append(member)
        for neighbours in behind.values():
            for pair in pair_up(neighbours, lambda one, other: other not in tried[one] and self.may_meet(one, other)):
                self._take(pair)
        return [member for member in seekers if member in self.free]

    def _with_friends(self, seekers: Sequence[Member]) -> list[Member]:
        """Those whose whole island has come under suspicion with each other, first. On the far side of a partition,
        all others would accuse them. Those who got no partner are returned."""
        islands: dict[Member, list[Member]] = defaultdict(list)
        for member in seekers:
            if member in self.evidence.last_pass and not self.rules.islands.get(self.evidence.island(member)):
                islands[self.evidence.island(member)].append(member)
        for friends in islands.values():
            for pair in pair_up(friends, self.may_meet):
                self._take(pair)
        return [member for member in seekers if member in self.free]

    def _with_good_partners(self, seekers: Sequence[Member]) -> list[Member]:
        """Each with somebody good: passes, and it is good; fails, and it is nearer to a conviction. Those who got no
        partner are returned."""
        partners = Partners(self.rules, self.free.difference(seekers), self.topology, self.may_meet)
        left = []
        for seeker in seekers:
            partner = partners.of(seeker)
            if partner is None:
                left.append(seeker)
            else:
                self._take((seeker, partner))
        return left

    def _among_themselves(self, seekers: Sequence[Member]) -> None:
        """Those for whom there is nobody good pair with each other, never twice. While nothing passes at all, only for
        a few rounds, and two alone in the world once again: it may have been an accident."""
        tried = self.evidence.tried
        if not self.rules.good:
            seekers = [member for member in seekers if len(tried[member]) < _BLIND_ROUNDS]
        for pair in pair_up(seekers, lambda one, other: other not in tried[one] and self.may_meet(one, other)):
            self._take(pair)
        if len(self.order) == 2 and not self.groups and len(self.evidence.failed.get(frozenset(self.order), ())) == 1:
            self._take(self.order)

    def _failed_pairs_again(self, *, within: bool) -> None:
        """A link, or an accident? First pairs within an island: of others it may be the islands that are apart."""
        for pair in self.evidence.open_pairs():
            between = frozenset(map(self.evidence.island, pair))
            settled = self.rules.believed(pair) or between in self.rules.apart or self.rules.flickering & pair
            if within == (len(between) == 1) and not settled and not self.rules.stale(pair):
                self._take(pair)

    def _company(self) -> None:
        """The condemned with each other, first those behind the same leaf; see `Rules.alone`."""
        behind: dict[object, list[Member]] = defaultdict(list)
        for member in self.rules.alone:
            behind[self.topology.get(member)].append(member)
        for pair in pair_up([member for leaf in behind.values() for member in leaf], self.may_meet):
            self._take(pair)

    def _one_network(self) -> None:
        """Once anything has failed, a chain through all islands, until they are one, or apart. Before that, the good
        may be good on two sides of a partition, and a suspect one that was only tried with the other side. Islands
        behind the same leaf come next to each other, since it may be its uplink."""
        if not self.evidence.failed:
            return
        leaf = {member: place for place, member in enumerate(sorted(self.order, key=self._leaf))}
        islands = sorted(self.rules.islands.items(), key=lambda island: leaf[island[1][0]])
        again = {member for pair in self.evidence.open_pairs() for member in pair}  # better tried with each other
        ends = {
            root: sorted((member for member in members if member in self.free), key=lambda member: member not in again)
            for root, members in islands
        }
        waiting = deque(root for root, _ in islands if ends[root])
        while len(waiting) > 1:
            here = waiting.popleft()
            there = next((root for root in waiting if frozenset((here, root)) not in self.rules.crossings), None)
            if there is not None and self._take_one_of_each(ends[here], ends[there]):
                waiting.remove(there)
                if ends[there]:
                    waiting.appendleft(there)
        for between, pairs in sorted(self.rules.crossings.items(), key=lambda crossing: len(crossing[1])):
            tried = len(self.evidence.good_ends.intersection(pairs))
            if between not in self.rules.apart and tried < 2 * ACROSS:  # then these are tried again
                here, there = (ends[root] for root in between)
                self._bridge(here, there, frozenset().union(*pairs))

    def _take_one_of_each(self, here: list[Member], there: list[Member]) -> bool:
        for one in reversed(here):
            for other in reversed(there):
                if self.may_meet(one, other) and self._take((one, other)):
                    here.remove(one)
                    there.remove(other)
                    return True
        return False

    def _bridge(self, here: list[Member], there: list[Member], touched: Group) -> None:
        """Between islands where something failed already, others are tried, as many as it takes to call them apart: is
        it a link, or all of them?"""
        begun = len(self.groups)
        for one in sorted(here, key=touched.__contains__):
            tried = self.evidence.tried[one]
            fresh = [it for it in there if it in self.free and it not in tried and self.may_meet(one, it)]
            if fresh and len(self.groups) - begun < ACROSS:
                self._take((one, min(fresh, key=touched.__contains__)))

    def _smallest_failing(self) -> None:
        for search in searches(self.rules, self.order):
            for group in search.wanted:
                self._take(group)


def searches(rules: Rules, order: Sequence[Member]) -> list[Search]:
    """One for every failing group that only its size explains, but for parts of others."""
    failed, passed = rules.evidence.failed, rules.evidence.passed
    groups = [group for group in failed if len(group) > 2 and not rules.explained(group)]
    whole = [group for group in groups if not any(group < other for other in groups)]
    done = []
    limit = _SEARCH * len(order).bit_length()
    for group in whole:
        search = Search(rules.evidence, rules.evidence.needed // 2, limit)
        search.halve([member for member in order if member in group])
        done.append(search)
    changed = sum(len(group) > 2 for group in rules.transient)
    if changed > FEW or sum(len(group) > 2 for group in (*failed, *passed)) > 2 * limit:
        for search in done:
            search.wanted.clear()  # answers that change from one time to the next lead nowhere
    return done
