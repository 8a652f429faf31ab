"""The choice of a good partner for a member that has to be tested. Pure."""

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain

from preflight.attribution.localiser.matching import MayMeet
from preflight.attribution.localiser.rules import Rules
from preflight.attribution.localiser.types import Member

_FAILURES_ELSEWHERE = 2  # with partners behind other leaves, after which as many behind the same leaf are tried


class Partners:
    """Good members, given away one by one: evenly from all islands, the fastest of each first."""

    def __init__(self, rules: Rules, free: set[Member], topology: Mapping[Member, object], may_meet: MayMeet) -> None:
        self.rules, self.evidence, self.topology, self.may_meet = rules, rules.evidence, topology, may_meet
        speed = self.evidence.speed
        self.islands = {
            root: sorted((member for member in members if member in free), key=lambda member: speed.get(member, 0.0))
            for root, members in rules.islands.items()
        }
        fastest = {root: speed.get(members[-1], 0.0) for root, members in self.islands.items() if members}
        self.turn = deque(sorted(fastest, key=fastest.__getitem__, reverse=True))

    def take_for(self, member: Member) -> Member | None:
        """Remove and return the partner from which most is learned, or None if none is free.

        A partner is tried for the second time only if the whole cluster has no other.
        """
        partner = next((partner for partner in self._in_turn(member) if self.may_meet(member, partner)), None)
        if partner is None and self._tried_with_all(member):
            tried = self.evidence.tried[member]
            free = chain.from_iterable(self.islands.values())
            allowed = (partner for partner in free if self.may_meet(member, partner))
            partner = min(allowed, key=lambda partner: len(tried.get(partner, ())), default=None)
        if partner is not None:
            root = self.evidence.island(partner)
            self.islands[root].remove(partner)
            self.turn.remove(root)
            if self.islands[root]:
                self.turn.append(root)
        return partner

    def _tried_with_all(self, member: Member) -> bool:
        tried = self.evidence.tried[member]
        return all(
            partner in tried for partner in self.rules.good if partner != member and self.may_meet(member, partner)
        )

    def _in_turn(self, member: Member) -> Iterator[Member]:
        """Yield partners, the most informative first.

        Its own island comes first, where it once passed. Then follow members behind the same leaf, if it failed only
        elsewhere. Sides of a partition that have yet to try it are next, then islands with which it was not tried, and
        all others.
        """
        tried = self.evidence.tried[member]
        failed_with = {suspicion.partner for suspicion in self.evidence.suspicions.get(member, ())}
        own = self.evidence.island(member)
        yield from self._of_islands([own], tried)
        yield from self._of_islands([own], failed_with)
        leaf = self.topology.get(member)
        near = sum(self.topology.get(partner) == leaf for partner in failed_with)
        if leaf is not None and near < _FAILURES_ELSEWHERE <= len(failed_with) - near:
            yield from (partner for partner in self._of_islands(self.turn, tried) if self.topology.get(partner) == leaf)
        yield from self._of_islands(sorted(self.rules.sides_to_ask(member)), tried)
        met = set(map(self.evidence.island, tried))
        yield from self._of_islands((root for root in self.turn if root not in met), tried)
        yield from self._of_islands(self.turn, tried)

    def _of_islands(self, roots: Iterable[Member], without: Container[Member]) -> Iterator[Member]:
        for root in roots:
            yield from (member for member in reversed(self.islands.get(root, ())) if member not in without)
