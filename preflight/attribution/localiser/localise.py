"""The localiser finds the host, link or partition at fault. Pure: it chooses tests, and takes in their outcomes.

    localiser = Localiser(hosts, topology={"node01": "leaf1", ...}, seed=7)
    while tests := localiser.next_round():
        localiser.observe({test: run(test) for test in tests})
    localiser.verdict()

docs/localise.md explains how it decides. In the code, `evidence.py` interprets results, `rules.py` identifies faults,
and `plan.py` chooses the next tests.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import isfinite

from preflight.attribution.localiser.evidence import Evidence
from preflight.attribution.localiser.matching import MayMeet, any_pair, meeting_order
from preflight.attribution.localiser.plan import Planner, scale_searches
from preflight.attribution.localiser.rules import Rules
from preflight.attribution.localiser.types import Group, GroupOutcome, GroupResult, Member, Test, Verdict

__all__ = ["GroupOutcome", "Localiser", "Test", "Verdict"]


class Localiser:
    """Rounds of tests over members, which are hosts or anything else that is hashable and sortable.

    `topology`: the leaf of each member, where that is known. `seed` decides which members meet: give each run another
    one, so that other pairs are tested. `may_meet`: whether two members can be tested together. Raises ValueError if a
    member is given twice, or the topology has another member.
    """

    def __init__(
        self,
        members: Iterable[Member],
        *,
        topology: Mapping[Member, object] | None = None,
        seed: int = 0,
        may_meet: MayMeet = any_pair,
    ) -> None:
        counts = Counter(iter(members))  # of a mapping, Counter itself would take the values for counts
        if repeated := [str(member) for member, count in counts.items() if count > 1]:
            raise ValueError(f"given more than once: {', '.join(sorted(repeated)[:5])}")
        self._members = sorted(counts)
        self._known = frozenset(counts)
        self._topology = dict(topology or {})
        self._may_meet = may_meet
        self._reject(self._topology, "the topology names")
        self._order = meeting_order(self._members, self._topology, seed)
        self._evidence = Evidence()
        self._place = 0
        self._attempts: Counter[Group] = Counter()
        self._outstanding: set[Test] = set()
        self._rules: Rules | None = None

    def next_round(self) -> list[Test]:
        """Return tests that may run at the same time, also beside those that were not observed yet.

        The list is empty if no test would add information, or no member is free.
        """
        busy = {member for test in self._outstanding for member in test.members}
        free = self._known - busy
        planner = Planner(self._current_rules(), free, self._order, self._topology, self._may_meet)
        tests = []
        for group in planner.fill():
            self._attempts[group] += 1
            tests.append(Test(group, self._attempts[group]))
        self._outstanding.update(tests)
        return tests

    def observe(self, outcomes: Mapping[Test, GroupOutcome], values: Mapping[Test, float] | None = None) -> None:
        """Take in the outcomes of tests, planned or not, of a whole round or a part of it.

        `values`: bandwidths in GB/s, by which good partners are chosen. The caller judges them, and passes SLOW. Raises
        ValueError, and takes nothing in, if a test has an unknown member.
        """
        self._reject((member for test in outcomes for member in test.members), "a test has")
        results = [
            GroupResult(test, GroupOutcome(outcome), _finite((values or {}).get(test)))
            for test, outcome in outcomes.items()
        ]
        for result in results:
            self._outstanding.discard(result.test)
            self._attempts[result.test.members] = max(self._attempts[result.test.members], result.test.attempt)
            self._evidence.add(self._place, result)
            self._place += 1
        self._rules = None

    def verdict(self) -> Verdict:
        """Return the verdict on the results so far, which more results may change."""
        rules, evidence = self._current_rules(), self._evidence
        systemic = rules.systemic
        faulty = {} if systemic else rules.faulty
        return Verdict(
            faulty=faulty,
            intermittent=rules.intermittent,
            unknown={
                member: self._tests_of(member)
                for member in self._members
                if member not in faulty and not evidence.good(member)
            },
            links=rules.links,
            partitions=rules.partitions,
            scale={
                group: tuple(evidence.failed[group])
                for search in scale_searches(rules, self._order)
                for group in search.smallest
                if len(group) > 2
            },
            transient=rules.transient,
            systemic=systemic,
        )

    def _current_rules(self) -> Rules:
        if self._rules is None:
            self._rules = Rules(self._members, self._evidence, self._may_meet)
        return self._rules

    def _tests_of(self, member: Member) -> tuple[Test, ...]:
        """Return the tests of an unknown member: those that failed, were not run, or were not observed yet."""
        suspicions = [suspicion.test for suspicion in self._evidence.suspicions.get(member, ())]
        outstanding = sorted((test for test in self._outstanding if member in test.members), key=lambda t: t.attempt)
        return (*suspicions, *self._evidence.not_run.get(member, ()), *outstanding)

    def _reject(self, members: Iterable[Member], owner: str) -> None:
        if unknown := {str(member) for member in members if member not in self._known}:
            dots = ", …" if len(unknown) > 5 else ""
            raise ValueError(f"{owner} members that are not to be tested: {', '.join(sorted(unknown)[:5])}{dots}")


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
