"""Hangs that a probe with a short budget cannot tell from slowness. Pure."""

from collections.abc import Sequence

from preflight.attribution.stopped_ranks import Behind, Stop
from preflight.model.measure import Observation, Scope, TestOutcome, TimeLimit


def is_slow_or_hung(stop: Stop, limit: TimeLimit | None) -> bool:
    """Return whether a group that stopped as one may have been slow: its steps had less time than usual."""
    return limit is not None and limit.shortened and _hung(stop.seen)


def is_slow_or_hung_alone(own: Behind, observations: Sequence[Observation], limit: TimeLimit | None) -> bool:
    """Return whether devices that stopped alone may have been slow.

    They may, if at least half of all devices that were tested alone hung in the same rounds.
    """
    if limit is None or not limit.shortened or not _hung(own.seen):
        return False
    if any(observation.test.scope is not Scope.DEVICE for observation in own.seen):
        return False
    rounds = {_round(observation) for observation in own.seen}
    tests = [
        observation.test
        for observation in observations
        if _round(observation) in rounds and observation.test.scope is Scope.DEVICE
    ]
    places = {test.members[0].place for test in tests}
    hung = {test.members[0].place for test in tests if test.outcome is TestOutcome.HANG}
    return 2 * len(hung) >= len(places)


def sentence(limit: TimeLimit, first: str) -> str:
    """Return the sentence of a finding about the hang `first`."""
    return (
        f"the budget of {limit.budget:.0f} s is too small to tell a hang from slowness: {first}; "
        f"{limit.enough:.0f} s would do"
    )


def remedy(limit: TimeLimit) -> str:
    return f"give the probe {limit.enough:.0f} s: preflight probe --budget {limit.enough:.0f}s"


def _hung(tests: Sequence[Observation]) -> bool:
    return all(observation.test.outcome is TestOutcome.HANG for observation in tests)


def _round(seen: Observation) -> str:
    return seen.test.id.partition("-")[0]
