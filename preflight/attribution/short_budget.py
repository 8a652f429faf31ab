"""Hangs that a probe with a short budget cannot tell from slowness. Pure."""

from collections.abc import Sequence

from preflight.attribution.stopped_ranks import Behind, Stop
from preflight.model.measure import Observation, Scope, TestOutcome, TimeLimit


def is_slow_or_hung(stop: Stop, limit: TimeLimit | None) -> bool:
    """Return whether a group that stopped as one may have been slow: its steps had less time than usual."""
    return limit is not None and limit.shortened and _hung(stop.seen)


def is_slow_or_hung_alone(own: Behind, observations: Sequence[Observation], limit: TimeLimit | None) -> bool:
    """Return whether devices that stopped alone may have been slow: most of the others needed more time, too, or there
    are no others."""
    if limit is None or not limit.shortened or not _hung(own.seen):
        return False
    if any(seen.test.scope is not Scope.DEVICE for seen in own.seen):
        return False
    rounds = {_round(seen) for seen in own.seen}
    tests = [seen.test for seen in observations if _round(seen) in rounds and seen.test.scope is Scope.DEVICE]
    places = {test.members[0].place for test in tests}
    hung = {test.members[0].place for test in tests if test.outcome is TestOutcome.HANG}
    return 2 * len(hung) >= len(places)


def sentence(limit: TimeLimit, first: str) -> str:
    """Return what a finding says of the hang `first`."""
    return (
        f"the budget of {limit.budget:.0f} s is too small to tell a hang from slowness: {first}; "
        f"{limit.enough:.0f} s would do"
    )


def remedy(limit: TimeLimit) -> str:
    return f"give the probe {limit.enough:.0f} s: preflight probe --budget {limit.enough:.0f}s"


def _hung(tests: Sequence[Observation]) -> bool:
    return all(seen.test.outcome is TestOutcome.HANG for seen in tests)


def _round(seen: Observation) -> str:
    return seen.test.id.partition("-")[0]
