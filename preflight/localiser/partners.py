"""Which good member a seeker is tried with. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from preflight.localiser.matching import MayMeet, anybody
from preflight.localiser.rules import Rules
from preflight.localiser.types import Member

_ELSEWHERE = 2  # accusers behind other leaves, after which so many behind the same leaf are asked


class Partners:
    """Good members, given away one by one: evenly from all islands, the fastest of each first."""

    def __init__(
        self, rules: Rules, free: set[Member], topology: Mapping[Member, object], may_meet: MayMeet = anybody
    ) -> None:
        self.rules, self.evidence, self.topology, self.may_meet = rules, rules.evidence, topology, may_meet
        speed = self.evidence.speed
        self.islands = {
            root: sorted((member for member in members if member in free), key=lambda member: speed.get(member, 0.0))
            for root, members in rules.islands.items()
        }
        fastest = {root: speed.get(members[-1], 0.0) for root, members in self.islands.items() if members}
        self.turn = deque(sorted(fastest, key=fastest.__getitem__, reverse=True))

    def of(self, seeker: Member) -> Member | None:
        """The first that is free of those who tell most; None if there is nobody. Somebody for the second time only if
        there is nobody else in the whole cluster."""
        tried = self.evidence.tried[seeker]
        found = next((member for member in self._in_turn(seeker) if self.may_meet(seeker, member)), None)
        if found is None and all(member in tried for member in self.rules.good if self._company(seeker, member)):
            everybody = [it for members in self.islands.values() for it in members if self.may_meet(seeker, it)]
            found = min(everybody, key=lambda member: len(tried.get(member, ())), default=None)
        if found is not None:
            root = self.evidence.island(found)
            self.islands[root].remove(found)
            self.turn.remove(root)
            if self.islands[root]:
                self.turn.append(root)
        return found

    def _company(self, seeker: Member, member: Member) -> bool:
        return member != seeker and self.may_meet(seeker, member)

    def _in_turn(self, seeker: Member) -> Iterator[Member]:
        """Its own island, where it once passed; who is behind the same leaf, if nobody elsewhere will have it; sides
        of a partition that have not said enough of it; islands that it was not tried with; all."""
        tried = self.evidence.tried[seeker]
        accusers = {held.by for held in self.evidence.accusations.get(seeker, ())}
        own = self.evidence.island(seeker)
        yield from self._but([own], tried)
        yield from self._but([own], accusers)
        leaf = self.topology.get(seeker)
        near = sum(self.topology.get(accuser) == leaf for accuser in accusers)
        if leaf is not None and near < _ELSEWHERE <= len(accusers) - near:
            yield from (member for member in self._but(self.turn, tried) if self.topology.get(member) == leaf)
        yield from self._but(sorted(self.rules.not_heard(seeker)), tried)
        met = {self.evidence.island(other) for other in tried}
        yield from self._but((root for root in self.turn if root not in met), tried)
        yield from self._but(self.turn, tried)

    def _but(self, roots: Iterable[Member], others: Iterable[Member]) -> Iterator[Member]:
        for root in roots:
            yield from (member for member in reversed(self.islands.get(root, ())) if member not in others)
