"""What the results so far say of every member: a fold over them in the order in which they came. Pure.

A member is *good* from a pass on, a *suspect* from an unexplained failure on. A failure with somebody good accuses the
other alone; a failure of two equals accuses both. A pass acquits of all accusations before it: what is broken does not
pass. Whoever passes together belongs to one *island*.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from preflight.localiser.types import Group, Member, Outcome, Result, Test

ABSENT_AFTER = 2  # tests in a row that were not run: the member is not there


@dataclass(frozen=True)
class Accusation:
    """A failed pair test, held against one of the two. `proven`: the other one was good, and this one was not."""

    test: Test
    by: Member
    proven: bool


@dataclass
class Evidence:
    """Of each member: what is held against it, whom it was tried with. Of each group: how often it failed."""

    last_pass: dict[Member, int] = field(default_factory=dict)  # the place in the sequence of results
    accusations: dict[Member, list[Accusation]] = field(default_factory=dict)  # since the last pass
    tried: dict[Member, dict[Member, list[Test]]] = field(default_factory=lambda: defaultdict(dict))  # by partner
    not_run: dict[Member, list[Test]] = field(default_factory=lambda: defaultdict(list))  # since the last that was
    failed: dict[Group, list[Test]] = field(default_factory=dict)
    first_failure: dict[Group, int] = field(default_factory=dict)
    good_ends: set[Group] = field(default_factory=set)  # pairs that failed first when both were already good
    passed: set[Group] = field(default_factory=set)
    speed: dict[Member, float] = field(default_factory=dict)  # the best value of its passed pairs
    streak: dict[Member, int] = field(default_factory=lambda: defaultdict(int))  # pairs passed in a row, to the last
    results: int = 0  # tests that were run
    contradicted: bool = False  # the same members failed and passed: a single failure says less than it does otherwise
    _parent: dict[Member, Member] = field(default_factory=dict)

    def suspect(self, member: Member) -> bool:
        return member in self.accusations

    def absent(self, member: Member) -> bool:
        return len(self.not_run.get(member, ())) >= ABSENT_AFTER

    def good(self, member: Member) -> bool:
        return member in self.last_pass and member not in self.accusations and not self.absent(member)

    def island(self, member: Member) -> Member:
        """The representative of those with whom it passed, directly or through others."""
        parent = self._parent
        while (up := parent.get(member, member)) != member:
            parent[member] = parent.get(up, up)
            member = up
        return member

    @property
    def needed(self) -> int:
        """Failures with good partners that convict."""
        return 4 if self.contradicted else 2

    def open_pairs(self) -> Iterator[Group]:
        """Pairs that failed and never passed, while both ends are good with others."""
        for group in self.failed:
            if len(group) == 2 and group not in self.passed and all(map(self.good, group)):
                yield group

    def _join(self, members: Iterable[Member]) -> None:
        roots = [self.island(member) for member in members]
        for root in roots[1:]:
            self._parent[root] = roots[0]
            roots[0] = self.island(roots[0])

    def _accuse(self, test: Test, a: Member, b: Member) -> None:
        good = {member for member in (a, b) if self.good(member)}
        if len(good) == 2 and len(self.failed[test.members]) > 1:
            return  # tried again because both are good elsewhere: that speaks of what is between them
        if len(good) == 2:
            self.good_ends.add(test.members)
        for member, other in ((a, b), (b, a)):
            if member not in good or len(good) == 2:
                accusation = Accusation(test, other, proven=other in good and member not in good)
                self.accusations.setdefault(member, []).append(accusation)

    def add(self, place: int, result: Result) -> None:
        test, members = result.test, sorted(result.test.members)
        if result.outcome is Outcome.NOT_RUN:
            for member in members:
                self.not_run[member].append(test)
            return
        self.results += 1
        for member in members:
            self.not_run.pop(member, None)
        if len(members) == 2:
            a, b = members
            self.tried[a].setdefault(b, []).append(test)
            self.tried[b].setdefault(a, []).append(test)
        self.contradicted |= test.members in (self.passed if result.failed else self.failed)
        if result.failed:
            self.failed.setdefault(test.members, []).append(test)
            self.first_failure.setdefault(test.members, place)
            if len(members) == 2:
                self._accuse(test, *members)
                self.streak.update(dict.fromkeys(members, 0))
            return
        self.passed.add(test.members)
        self._join(members)
        for member in members:
            self.last_pass[member] = place
            self.accusations.pop(member, None)
            self.streak[member] += len(members) == 2
            if result.value is not None and len(members) == 2:
                self.speed[member] = max(result.value, self.speed.get(member, result.value))


def weigh(results: Sequence[Result]) -> Evidence:
    evidence = Evidence()
    for place, result in enumerate(results):
        evidence.add(place, result)
    return evidence
