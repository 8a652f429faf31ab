"""Slow pairs, judged among themselves. Pure."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.model.measure import Member, Observation, TestOutcome
from preflight.model.peers import usual

JUDGED = "all_reduce"  # the operation by which pairs are compared: it sends both ways
SLOW, DEVIATIONS = 0.93, 3.0  # of the median, and spreads from it: a pair below both is retested
HEAPS = 0.8  # of the slowest fast pair: if the fastest slow pair is below this, there are two kinds of pairs
FEW = 3  # pairs; of two, neither is known to be the usual one
UNLIKE = 0.1  # of the median: with a larger spread, the median says nothing


def _speeds(observations: Iterable[Observation]) -> dict[tuple[Member, ...], list[float]]:
    """Return every bus bandwidth measured, in GB/s, by pair."""
    speeds: dict[tuple[Member, ...], list[float]] = {}
    for observation in observations:
        test = observation.test
        if test.op == JUDGED and test.outcome is TestOutcome.PASS and test.busbw_GBps:
            speeds.setdefault(test.members, []).append(test.busbw_GBps)
    return speeds


def slow_below(rails: Iterable[Observation]) -> float:
    """Return the bandwidth in GB/s below which a pair is slow, or 0 if too few pairs passed to know the usual one.

    The limit is lower if repeated measurements of the same pairs differ by more. Then the machines are busy with
    something else, and smaller differences between pairs mean nothing. The best of several measurements of a pair
    counts, because disturbance only ever makes a pair slower. If up to half of the pairs are slow, the median is
    between two heaps, and the limit is between them, too. The same holds if there are only three pairs.
    """
    speeds = _speeds(rails).values()
    best = sorted(max(measured) for measured in speeds)
    peers = usual(best)
    if len(best) < FEW:
        return 0.0
    unrest = statistics.median(min(measured) / max(measured) for measured in speeds)
    if peers is None:  # in a ring of three, two pairs are slow if one end is
        return _between_heaps(best, HEAPS * unrest)
    limit = min(peers.limit(SLOW, DEVIATIONS), unrest * peers.median)
    return max(limit, _between_heaps(best, HEAPS * unrest)) if peers.spread > UNLIKE * peers.median else limit


def _between_heaps(ordered: Sequence[float], apart: float) -> float:
    """Return the middle of the widest gap in the lower half (of three values, anywhere), else 0.

    It counts only if the value below it is less than `apart` of the value above.
    """
    gaps = [(ordered[place] / ordered[place + 1], place) for place in range(max(2, len(ordered) // 2))]
    share, place = min(gaps)
    return (ordered[place] + ordered[place + 1]) / 2 if share < apart else 0.0


def with_slow(observations: Sequence[Observation], below: float) -> list[Observation]:
    """Return the observations, with the tests of a pair as slow if it was never as fast as `below`."""
    slow = {pair for pair, measured in _speeds(observations).items() if max(measured) < below}
    return [
        replace(observation, test=replace(observation.test, outcome=TestOutcome.SLOW))
        if observation.test.members in slow
        and observation.test.outcome is TestOutcome.PASS
        and observation.test.op == JUDGED
        else observation
        for observation in observations
    ]
