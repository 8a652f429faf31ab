"""Observations that a localiser's verdict rests on, by id. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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
    """A localiser with the observations of its tests. `places`: the object, mostly a device, behind each member."""

    localiser: Localiser
    places: Mapping[str, Any]
    observations: dict[Test, Sequence[Observation]] = field(default_factory=dict)

    def add(self, results: Mapping[Test, Sequence[Observation]]) -> None:
        """Add results of tests. Tests without any observation were not run."""
        self.observations |= results
        speeds = {test: _speed(observations) for test, observations in results.items()}
        self.localiser.observe(
            {test: outcome_of(observations) for test, observations in results.items()},
            {test: speed for test, speed in speeds.items() if speed},
        )

    @property
    def rail(self) -> Rail:
        """The localiser's verdict and outcomes, for `merge`."""
        outcomes = {test: outcome_of(observations) for test, observations in self.observations.items()}
        return Rail(list(self.places), self.localiser.verdict(), outcomes)

    def worst(self, tests: Iterable[Test]) -> list[Observation]:
        """Return the worst observation of each test that has any."""
        groups = (self.observations.get(test) for test in tests)
        return [max(group, key=_badness) for group in groups if group]

    def last_passes(self, tests: Iterable[Test], member: str) -> list[str]:
        """Return the ids of the last tests that the partners of a member in `tests` passed."""
        partners = sorted({partner for test in tests for partner in test.members} - {member})
        return [test_id for partner in partners if (test_id := self._last_pass(partner))]

    def _last_pass(self, member: str) -> str:
        """Return the id of the last test that a member passed, or nothing if there is none."""
        own_results = (observations for test, observations in self.observations.items() if member in test.members)
        passes = [observations for observations in own_results if outcome_of(observations) is GroupOutcome.PASS]
        return passes[-1][-1].test.id if passes else ""


def outcome_of(observations: Sequence[Observation]) -> GroupOutcome:
    """Return the outcome of a group. A lost host says nothing about its partners, and needs none to be identified."""
    if not observations or any(view.end is End.LOST for observation in observations for view in observation.ranks):
        return GroupOutcome.NOT_RUN
    outcomes = {observation.test.outcome for observation in observations}
    return GroupOutcome(next((worst for worst in _WORST if worst in outcomes), GroupOutcome.PASS))


def _speed(observations: Iterable[Observation]) -> float:
    return max(
        (observation.test.busbw_GBps or 0.0 for observation in observations if observation.test.op == JUDGED),
        default=0.0,
    )


def _badness(observation: Observation) -> int:
    return len(_WORST) - _WORST.index(observation.test.outcome) if observation.test.outcome in _WORST else 0


def locate(fault: LocatedFault, fields: Mapping[int, Field], *, of_devices: bool = False) -> Located:
    """Return a fault with its tests, outcome and direction.

    `of_devices`: the localiser's members are devices, not hosts (of a rail, or whole).
    """
    failures = [worst for rail, tests in fault.tests.items() for worst in fields[rail].worst(tests)]
    outcomes = Counter(failure.test.outcome for failure in failures)
    outcome = outcomes.most_common(1)[0][0] if outcomes else TestOutcome.NOT_RUN
    test_ids = [*(failure.test.id for failure in failures), *_partners_passes(fault, fields, of_devices)]
    direction = _direction(fault.members, fields.values()) if outcome is TestOutcome.SLOW else ""
    kind = fault.kind.replace("host", "device") if of_devices else fault.kind
    return Located(kind, fault.members, tuple(dict.fromkeys(test_ids)), outcome, direction)


def _partners_passes(fault: LocatedFault, fields: Mapping[int, Field], of_devices: bool) -> Iterator[str]:
    """Yield the last tests that the partners of a single faulty member passed."""
    if len(fault.members) == 1:
        member = fault.members[0] if of_devices else fault.members[0].partition("/")[0]
        for rail, tests in fault.tests.items():
            yield from fields[rail].last_passes(tests, member)


def _one_way(observations: Iterable[Observation]) -> Iterator[Transfer]:
    """Yield the transfers of broadcasts between two devices, which carry data one way."""
    for observation in observations:
        test = observation.test
        if test.op == "broadcast" and len(test.members) == 2 and test.root is not None and test.busbw_GBps:
            sender, receiver = test.members[test.root], test.members[1 - test.root]
            yield Transfer(sender.place, receiver.place, test.busbw_GBps)


def _direction(members: Sequence[str], fields: Iterable[Field]) -> str:
    """Return the slow direction of a host, a device, or two that form a link, or nothing if it is not known."""
    groups = (observations for rail_field in fields for observations in rail_field.observations.values())
    sent = list(_one_way(chain.from_iterable(groups)))
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
