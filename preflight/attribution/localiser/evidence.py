"""Evidence about every member: a fold over the results in the order in which they came. Pure.

A member is *good* from a pass on, and a *suspect* from an unexplained failure on. A failure with a good partner puts
suspicion on the other member alone; a failure of two good or two unproven members puts it on both. A pass clears a
member of all earlier suspicion, since a broken member does not pass. Members that passed together, directly or through
others, form an *island*.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from preflight.attribution.localiser.types import Group, GroupOutcome, GroupResult, Member, Test

ABSENT_AFTER = 2  # consecutive tests that were not run, after which a member counts as absent


@dataclass(frozen=True)
class Suspicion:
    """A failed pair test, counted against one of the two. `proven`: its partner was good, and it was not."""

    test: Test
    partner: Member
    proven: bool


@dataclass
class Evidence:
    """Facts about members, pairs and larger groups that the results so far establish."""

    last_pass: dict[Member, int] = field(default_factory=dict)  # the place in the sequence of results
    suspicions: dict[Member, list[Suspicion]] = field(default_factory=dict)  # since the last pass
    tried: dict[Member, dict[Member, list[Test]]] = field(default_factory=lambda: defaultdict(dict))  # by partner
    not_run: dict[Member, list[Test]] = field(default_factory=lambda: defaultdict(list))  # since the last that was
    failed: dict[Group, list[Test]] = field(default_factory=dict)
    first_failure: dict[Group, int] = field(default_factory=dict)
    good_ends: set[Group] = field(default_factory=set)  # pairs that failed first when both were already good
    passed: set[Group] = field(default_factory=set)
    speed: dict[Member, float] = field(default_factory=dict)  # the best value of its passed pairs
    streak: dict[Member, int] = field(default_factory=lambda: defaultdict(int))  # pairs passed since its last failure
    tests_run: int = 0
    contradicted: bool = False  # a group both failed and passed: from then on one failure proves less
    _parent: dict[Member, Member] = field(default_factory=dict)

    def absent(self, member: Member) -> bool:
        return len(self.not_run.get(member, ())) >= ABSENT_AFTER

    def good(self, member: Member) -> bool:
        return member in self.last_pass and member not in self.suspicions and not self.absent(member)

    def island(self, member: Member) -> Member:
        """Return the representative of the member's island: union-find with path halving."""
        parent = self._parent
        while (up := parent.get(member, member)) != member:
            parent[member] = parent.get(up, up)
            member = up
        return member

    @property
    def failures_needed(self) -> int:
        """Failures with good partners that show a fault."""
        return 4 if self.contradicted else 2

    def open_pairs(self) -> Iterator[Group]:
        """Yield pairs that failed and never passed, while both ends are good with others."""
        for group in self.failed:
            if len(group) == 2 and group not in self.passed and all(map(self.good, group)):
                yield group

    def add(self, place: int, result: GroupResult) -> None:
        """Take in the result at this place in the sequence."""
        test, members = result.test, sorted(result.test.members)
        if result.outcome is GroupOutcome.NOT_RUN:
            for member in members:
                self.not_run[member].append(test)
            return
        self.tests_run += 1
        for member in members:
            self.not_run.pop(member, None)
        if len(members) == 2:
            a, b = members
            self.tried[a].setdefault(b, []).append(test)
            self.tried[b].setdefault(a, []).append(test)
        self.contradicted |= test.members in (self.passed if result.failed else self.failed)
        if result.failed:
            self._add_failure(place, test, members)
        else:
            self._add_pass(place, result, members)

    def _add_failure(self, place: int, test: Test, members: Sequence[Member]) -> None:
        self.failed.setdefault(test.members, []).append(test)
        self.first_failure.setdefault(test.members, place)
        if len(members) == 2:
            self._suspect_ends(test, *members)
            self.streak.update(dict.fromkeys(members, 0))

    def _add_pass(self, place: int, result: GroupResult, members: Sequence[Member]) -> None:
        self.passed.add(result.test.members)
        self._join(members)
        for member in members:
            self.last_pass[member] = place
            self.suspicions.pop(member, None)
            self.streak[member] += len(members) == 2
            if result.value is not None and len(members) == 2:
                self.speed[member] = max(result.value, self.speed.get(member, result.value))

    def _join(self, members: Iterable[Member]) -> None:
        roots = [self.island(member) for member in members]
        for root in roots[1:]:
            self._parent[root] = roots[0]
            roots[0] = self.island(roots[0])

    def _suspect_ends(self, test: Test, a: Member, b: Member) -> None:
        good = {member for member in (a, b) if self.good(member)}
        if len(good) == 2:
            if len(self.failed[test.members]) > 1:
                return  # a retest of two ends that are good elsewhere is about the link between them
            self.good_ends.add(test.members)
        for member, partner in ((a, b), (b, a)):
            if len(good) == 2 or member not in good:
                suspicion = Suspicion(test, partner, proven=partner in good and member not in good)
                self.suspicions.setdefault(member, []).append(suspicion)


def weigh(results: Sequence[GroupResult]) -> Evidence:
    """Return the evidence of results in their order."""
    evidence = Evidence()
    for place, result in enumerate(results):
        evidence.add(place, result)
    return evidence
