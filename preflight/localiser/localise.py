"""The localiser: which host, link or partition is it? Pure: it says what to test, and is told how that went.

    localiser = Localiser(hosts, topology={"node01": "leaf1", ...}, seed=7)
    while tests := localiser.next_round():
        localiser.observe({test: run(test) for test in tests})
    localiser.verdict()

How it decides stands in docs/localise.md; in the code, `localiser/evidence.py` says what results mean,
`localiser/rules.py` what is enough to convict, `localiser/plan.py` what is tested next.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import isfinite

from preflight.localiser.evidence import Evidence
from preflight.localiser.matching import MayMeet, anybody, meeting_order
from preflight.localiser.plan import Planner, searches
from preflight.localiser.rules import Rules
from preflight.localiser.types import Group, Member, Outcome, Result, Test, Verdict

__all__ = ["Localiser", "Outcome", "Test", "Verdict"]


class Localiser:
    """Members are hosts, or anything that is hashable and sortable. `topology`: behind which leaf each is, where that
    is known. The seed decides who meets whom; give each run another one, so that other pairs are tried. `may_meet`:
    which two can be tested together, where not everybody can. ValueError if a member is given twice, or the topology
    names somebody who is none."""

    def __init__(
        self,
        members: Iterable[Member],
        *,
        topology: Mapping[Member, object] | None = None,
        seed: int = 0,
        may_meet: MayMeet = anybody,
    ) -> None:
        given = list(members)
        self._members = sorted(set(given))
        self._topology = dict(topology or {})
        self._may_meet = may_meet
        if len(given) > len(self._members):
            twice = [str(member) for member, count in Counter(given).items() if count > 1]
            raise ValueError(f"given more than once: {', '.join(sorted(twice)[:5])}")
        self._known = frozenset(self._members)
        self._reject(self._topology, "the topology names")
        self._order = meeting_order(self._members, self._topology, seed)
        self._evidence = Evidence()
        self._place = 0
        self._attempts: Counter[Group] = Counter()
        self._outstanding: set[Test] = set()
        self._rules: Rules | None = None

    def next_round(self) -> list[Test]:
        """Tests that may run at the same time, also beside those that were not observed yet; empty if there is nothing
        to be learned, or nobody free."""
        busy = {member for test in self._outstanding for member in test.members}
        planner = Planner(self._weighed(), self._known - busy, self._order, self._topology, self._may_meet)
        tests = []
        for group in planner.fill():
            self._attempts[group] += 1
            tests.append(Test(group, self._attempts[group]))
        self._outstanding.update(tests)
        return tests

    def observe(self, outcomes: Mapping[Test, Outcome], values: Mapping[Test, float] | None = None) -> None:
        """Take in how tests ended, planned or not, all of a round or part of it. `values`: their bandwidths, by which
        good partners are chosen; judging them is the caller's part, who says SLOW. ValueError, and nothing is taken
        in, if a test has a member that is not ours."""
        self._reject((member for test in outcomes for member in test.members), "a test has")
        results = [
            Result(test, Outcome(outcome), _number((values or {}).get(test))) for test, outcome in outcomes.items()
        ]
        for result in results:
            self._outstanding.discard(result.test)
            self._attempts[result.test.members] = max(self._attempts[result.test.members], result.test.attempt)
            self._evidence.add(self._place, result)
            self._place += 1
        self._rules = None

    def verdict(self) -> Verdict:
        """What the results so far allow to say; more results may take it back."""
        rules, evidence = self._weighed(), self._evidence
        found = [group for search in searches(rules, self._order) for group in search.found if len(group) > 2]
        systemic = rules.systemic
        convicted = {} if systemic else rules.convicted
        return Verdict(
            convicted=convicted,
            intermittent=rules.intermittent,
            unknown={
                member: self._tests_of(member)
                for member in self._members
                if member not in convicted and not evidence.good(member)
            },
            links=rules.links,
            partitions=rules.partitions,
            scale={group: tuple(evidence.failed[group]) for group in found},
            transient=rules.transient,
            systemic=systemic,
        )

    def _weighed(self) -> Rules:
        if self._rules is None:
            self._rules = Rules(self._members, self._evidence, self._may_meet)
        return self._rules

    def _tests_of(self, member: Member) -> tuple[Test, ...]:
        """What was tried with a member of whom nothing is known: what is held against it, or was not run."""
        accusations = [accusation.test for accusation in self._evidence.accusations.get(member, ())]
        outstanding = sorted((test for test in self._outstanding if member in test.members), key=lambda t: t.attempt)
        return (*accusations, *self._evidence.not_run.get(member, ()), *outstanding)

    def _reject(self, members: Iterable[Member], whose: str) -> None:
        unknown = {str(member) for member in members if member not in self._known}
        if unknown:
            more = ", …" if len(unknown) > 5 else ""
            raise ValueError(f"{whose} members that are not to be tested: {', '.join(sorted(unknown)[:5])}{more}")


def _number(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
