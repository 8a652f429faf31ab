"""Which pairs are bad, judged among themselves. Pure."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.model.measure import Member, Observation, TestOutcome
from preflight.model.peers import usual

_WELL = (TestOutcome.PASS, TestOutcome.REFUSED)
SLOW, DEVIATIONS = 0.93, 3.0  # of the median, and spreads from it: a pair below both is tried again


def _speeds(observations: Iterable[Observation]) -> dict[tuple[Member, ...], list[float]]:
    """Every bus bandwidth measured, GB/s, by pair."""
    speeds: dict[tuple[Member, ...], list[float]] = {}
    for observation in observations:
        test = observation.test
        if test.outcome is TestOutcome.PASS and test.busbw_GBps:
            speeds.setdefault(test.members, []).append(test.busbw_GBps)
    return speeds


def slow_below(rails: Iterable[Observation]) -> float:
    """GB/s under which a pair is slow; 0 where too few passed to know what is usual.

    Less than that where pairs differ from themselves by more from one measurement to the next: then the machines are
    busy with something else, and smaller differences between pairs mean nothing. Of several measurements of a pair the
    best counts, because disturbance only ever makes a pair slower.
    """
    speeds = _speeds(rails).values()
    peers = usual([max(measured) for measured in speeds])
    if peers is None:
        return 0.0
    unrest = statistics.median(min(measured) / max(measured) for measured in speeds)
    return min(peers.limit(SLOW, DEVIATIONS), unrest * peers.median)


def with_slow(observations: Sequence[Observation], below: float) -> list[Observation]:
    """The same observations; the tests of a pair that was never as fast as `below` are called slow."""
    slow = {pair for pair, measured in _speeds(observations).items() if max(measured) < below}
    return [
        replace(seen, test=replace(seen.test, outcome=TestOutcome.SLOW))
        if seen.test.members in slow and seen.test.outcome is TestOutcome.PASS and seen.test.bytes
        else seen
        for seen in observations
    ]


def split(observations: Iterable[Observation]) -> tuple[list[tuple[Member, ...]], list[tuple[Member, ...]]]:
    """The pairs that passed everything, and those that did not."""
    good: dict[tuple[Member, ...], bool] = {}
    for seen in observations:
        good[seen.test.members] = good.get(seen.test.members, True) and seen.test.outcome in _WELL
    return [pair for pair, well in good.items() if well], [pair for pair, well in good.items() if not well]


def acquitted(bad: Iterable[tuple[Member, ...]], swapped: Iterable[Observation]) -> list[tuple[Member, ...]]:
    """The bad pairs whose ends have both passed with other partners: to be tried again with each other."""
    good, _ = split(swapped)
    cleared = {(member.host, member.device) for pair in good for member in pair}
    return [pair for pair in bad if all((member.host, member.device) in cleared for member in pair)]
