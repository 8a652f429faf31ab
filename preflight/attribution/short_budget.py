"""Hangs that a probe with a short budget cannot distinguish from slowness. Pure."""

from collections.abc import Iterable, Sequence

from preflight.attribution.stopped_ranks import Behind, Stop
from preflight.model.measure import Observation, Scope, TestOutcome, TestResult, TimeLimit


def is_slow_or_hung(stop: Stop, limit: TimeLimit | None) -> bool:
    """Return whether a group that stopped as one may have been slow: its steps had less time than usual."""
    return _may_be_slow(stop.seen, limit)


def is_slow_or_hung_alone(own: Behind, observations: Sequence[Observation], limit: TimeLimit | None) -> bool:
    """Return whether devices that stopped alone may have been slow.

    They may, if at least half of all devices that were tested alone hung in the same rounds.
    """
    if not _may_be_slow(own.seen, limit) or any(observation.test.scope is not Scope.DEVICE for observation in own.seen):
        return False
    rounds = {observation.test.round for observation in own.seen}
    tests = [
        observation.test
        for observation in observations
        if observation.test.round in rounds and observation.test.scope is Scope.DEVICE
    ]
    hung = [test for test in tests if test.outcome is TestOutcome.HANG]
    return 2 * len(_devices(hung)) >= len(_devices(tests))


def sentence(limit: TimeLimit, first: str) -> str:
    """Return the sentence of a finding about the hang `first`."""
    problem = f"the budget of {limit.budget:.0f} s is too short to tell a hang from slow progress"
    return f"{problem} ({first}). {enough(limit)}"


def enough(limit: TimeLimit) -> str:
    return f"A budget of {limit.enough:.0f} s would be enough"


def _may_be_slow(hung: Sequence[Observation], limit: TimeLimit | None) -> bool:
    """Return whether tests may have been slow: all of them hung, and had less time than usual."""
    has_less_time = limit is not None and limit.shortened
    return has_less_time and all(observation.test.outcome is TestOutcome.HANG for observation in hung)


def _devices(tests: Iterable[TestResult]) -> set[str]:
    """Return the devices of tests of one device each."""
    return {test.members[0].place for test in tests}
