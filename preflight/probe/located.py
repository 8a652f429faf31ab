"""What a localiser's verdict rests on: the observations of its tests, by id. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from preflight.attribution.localiser.localise import Localiser
from preflight.attribution.localiser.merge import LocatedFault, Rail, Transfer, slow_direction, slow_link_direction
from preflight.attribution.localiser.types import GroupOutcome, Test
from preflight.model.measure import End, Located, Observation, TestOutcome
from preflight.probe.pairs import JUDGED

# The outcome of a group is the worst of its tests'; what was refused is nobody's fault.
_WORST = (TestOutcome.HANG, TestOutcome.FAIL, TestOutcome.WRONG_DATA, TestOutcome.SLOW, TestOutcome.NOT_RUN)


@dataclass
class Field:
    """A localiser, and what was seen of its tests. `stand`: what stands for each of its members, a device mostly."""

    localiser: Localiser
    stand: Mapping[str, Any]
    seen: dict[Test, Sequence[Observation]] = field(default_factory=dict)

    def add(self, results: Mapping[Test, Sequence[Observation]]) -> None:
        """Tests without any observation were not run."""
        self.seen |= results
        speeds = {test: _speed(seen) for test, seen in results.items()}
        self.localiser.observe(
            {test: outcome_of(seen) for test, seen in results.items()},
            {test: speed for test, speed in speeds.items() if speed},
        )

    @property
    def rail(self) -> Rail:
        """What its localiser says, for `merge`."""
        outcomes = {test: outcome_of(seen) for test, seen in self.seen.items()}
        return Rail(list(self.stand), self.localiser.verdict(), outcomes)

    def last_pass(self, member: str) -> str:
        """The id of the last test that somebody passed, empty if there is none."""
        own = (seen for test, seen in self.seen.items() if member in test.members)
        passed = [seen for seen in own if outcome_of(seen) is GroupOutcome.PASS]
        return passed[-1][-1].test.id if passed else ""


def outcome_of(seen: Sequence[Observation]) -> GroupOutcome:
    """A host that was lost tells nothing of its partners, and needs none to be named."""
    if not seen or any(view.end is End.LOST for one in seen for view in one.ranks):
        return GroupOutcome.NOT_RUN
    outcomes = {one.test.outcome for one in seen}
    return GroupOutcome(next((worst for worst in _WORST if worst in outcomes), GroupOutcome.PASS))


def _speed(seen: Iterable[Observation]) -> float:
    return max((one.test.busbw_GBps or 0.0 for one in seen if one.test.op == JUDGED), default=0.0)


def _badness(seen: Observation) -> int:
    return len(_WORST) - _WORST.index(seen.test.outcome) if seen.test.outcome in _WORST else 0


def located(found: LocatedFault, fields: Mapping[int, Field], *, of_devices: bool = False) -> Located:
    """`of_devices`: the localiser's members are devices, not hosts (of a rail, or whole)."""
    against: list[str] = []
    good: list[str] = []
    outcomes: Counter[TestOutcome] = Counter()
    for rail, tests in found.tests.items():
        seen = fields[rail].seen
        for worst in (max(seen[test], key=_badness) for test in tests if seen.get(test)):
            against.append(worst.test.id)
            outcomes[worst.test.outcome] += 1
        if len(found.members) == 1:
            own = found.members[0] if of_devices else found.members[0].partition("/")[0]
            partners = sorted({member for test in tests for member in test.members} - {own})
            good += filter(None, map(fields[rail].last_pass, partners))
    outcome = outcomes.most_common(1)[0][0] if outcomes else TestOutcome.NOT_RUN
    seen_all = [one for each in fields.values() for those in each.seen.values() for one in those]
    direction = _direction(found.members, list(_one_way(seen_all))) if outcome is TestOutcome.SLOW else ""
    kind = found.kind.replace("host", "device") if of_devices else found.kind
    return Located(kind, found.members, tuple(dict.fromkeys((*against, *good))), outcome, direction)


def _one_way(observations: Iterable[Observation]) -> Iterator[Transfer]:
    """Broadcasts between two devices: what they carry goes one way."""
    for seen in observations:
        test = seen.test
        if test.op == "broadcast" and len(test.members) == 2 and test.root is not None and test.busbw_GBps:
            sender, receiver = test.members[test.root], test.members[1 - test.root]
            yield Transfer(sender.place, receiver.place, test.busbw_GBps)


def _direction(members: Sequence[str], sent: Sequence[Transfer]) -> str:
    """Which way is slow, of a host, a device, or two that are named together; empty where that is not known."""
    if all("/" not in member for member in members):
        sent = [Transfer(one.sender.partition("/")[0], one.receiver.partition("/")[0], one.gbps) for one in sent]
    match members:
        case [one]:
            return slow_direction(one, sent)
        case [one, other]:
            return slow_link_direction((one, other), sent)
    return ""
