"""Observations that a localiser's verdict rests on, by id. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from preflight.attribution.localiser.combine_rails import (
    LocatedFault,
    Rail,
    Transfer,
    slow_direction,
    slow_link_direction,
)
from preflight.attribution.localiser.localise import Localiser
from preflight.attribution.localiser.types import GroupOutcome, Test
from preflight.model.measure import End, Located, Observation, TestOutcome
from preflight.probe.pairs import JUDGED

# The outcome of a group is the worst of its tests'. A refused test is no fault.
_WORST = (TestOutcome.HANG, TestOutcome.FAIL, TestOutcome.WRONG_DATA, TestOutcome.SLOW, TestOutcome.NOT_RUN)


@dataclass
class Field:
    """A localiser with the observations of its tests. `stand`: the object, mostly a device, behind each member."""

    localiser: Localiser
    stand: Mapping[str, Any]
    seen: dict[Test, Sequence[Observation]] = field(default_factory=dict)

    def add(self, results: Mapping[Test, Sequence[Observation]]) -> None:
        """Add results of tests. Tests without any observation were not run."""
        self.seen |= results
        speeds = {test: _speed(observations) for test, observations in results.items()}
        self.localiser.observe(
            {test: outcome_of(observations) for test, observations in results.items()},
            {test: speed for test, speed in speeds.items() if speed},
        )

    @property
    def rail(self) -> Rail:
        """The localiser's verdict and outcomes, for `merge`."""
        outcomes = {test: outcome_of(observations) for test, observations in self.seen.items()}
        return Rail(list(self.stand), self.localiser.verdict(), outcomes)

    def last_pass(self, member: str) -> str:
        """Return the id of the last test that a member passed, or nothing if there is none."""
        own_results = (observations for test, observations in self.seen.items() if member in test.members)
        passes = [observations for observations in own_results if outcome_of(observations) is GroupOutcome.PASS]
        return passes[-1][-1].test.id if passes else ""


def outcome_of(seen: Sequence[Observation]) -> GroupOutcome:
    """Return the outcome of a group. A lost host says nothing about its partners, and needs none to be identified."""
    if not seen or any(view.end is End.LOST for observation in seen for view in observation.ranks):
        return GroupOutcome.NOT_RUN
    outcomes = {observation.test.outcome for observation in seen}
    return GroupOutcome(next((worst for worst in _WORST if worst in outcomes), GroupOutcome.PASS))


def _speed(seen: Iterable[Observation]) -> float:
    return max(
        (observation.test.busbw_GBps or 0.0 for observation in seen if observation.test.op == JUDGED), default=0.0
    )


def _badness(seen: Observation) -> int:
    return len(_WORST) - _WORST.index(seen.test.outcome) if seen.test.outcome in _WORST else 0


def located(found: LocatedFault, fields: Mapping[int, Field], *, of_devices: bool = False) -> Located:
    """Return a fault with its tests, outcome and direction.

    `of_devices`: the localiser's members are devices, not hosts (of a rail, or whole).
    """
    failed_ids: list[str] = []
    passed_ids: list[str] = []
    outcomes: Counter[TestOutcome] = Counter()
    for rail, tests in found.tests.items():
        observations = fields[rail].seen
        for worst in (max(observations[test], key=_badness) for test in tests if observations.get(test)):
            failed_ids.append(worst.test.id)
            outcomes[worst.test.outcome] += 1
        if len(found.members) == 1:
            own_member = found.members[0] if of_devices else found.members[0].partition("/")[0]
            partners = sorted({member for test in tests for member in test.members} - {own_member})
            passed_ids += filter(None, map(fields[rail].last_pass, partners))
    outcome = outcomes.most_common(1)[0][0] if outcomes else TestOutcome.NOT_RUN
    all_observations = [
        observation for rail_field in fields.values() for group in rail_field.seen.values() for observation in group
    ]
    direction = _direction(found.members, list(_one_way(all_observations))) if outcome is TestOutcome.SLOW else ""
    kind = found.kind.replace("host", "device") if of_devices else found.kind
    return Located(kind, found.members, tuple(dict.fromkeys((*failed_ids, *passed_ids))), outcome, direction)


def _one_way(observations: Iterable[Observation]) -> Iterator[Transfer]:
    """Yield the transfers of broadcasts between two devices, which carry data one way."""
    for observation in observations:
        test = observation.test
        if test.op == "broadcast" and len(test.members) == 2 and test.root is not None and test.busbw_GBps:
            sender, receiver = test.members[test.root], test.members[1 - test.root]
            yield Transfer(sender.place, receiver.place, test.busbw_GBps)


def _direction(members: Sequence[str], sent: Sequence[Transfer]) -> str:
    """Return the slow direction of a host, a device, or two that form a link, or nothing if it is not known."""
    if all("/" not in member for member in members):
        sent = [
            Transfer(transfer.sender.partition("/")[0], transfer.receiver.partition("/")[0], transfer.gbps)
            for transfer in sent
        ]
    match members:
        case [member]:
            return slow_direction(member, sent)
        case [member, peer]:
            return slow_link_direction((member, peer), sent)
    return ""
