"""Which pairs are slow, judged among themselves. Pure."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from preflight.model.measure import Member, Observation, TestOutcome
from preflight.model.peers import usual

JUDGED = "all_reduce"  # the operation by which pairs are compared: it sends both ways
SLOW, DEVIATIONS = 0.93, 3.0  # of the median, and spreads from it: a pair below both is tried again
HEAPS = 0.8  # of the slowest fast pair, the fastest slow one: so far apart, they are two kinds of pairs
FEW = 3  # pairs; of two, nobody knows which is usual
UNLIKE = 0.1  # of the median: a spread beyond which it is the median of nothing


def _speeds(observations: Iterable[Observation]) -> dict[tuple[Member, ...], list[float]]:
    """Every bus bandwidth measured, GB/s, by pair."""
    speeds: dict[tuple[Member, ...], list[float]] = {}
    for observation in observations:
        test = observation.test
        if test.op == JUDGED and test.outcome is TestOutcome.PASS and test.busbw_GBps:
            speeds.setdefault(test.members, []).append(test.busbw_GBps)
    return speeds


def slow_below(rails: Iterable[Observation]) -> float:
    """GB/s under which a pair is slow; 0 where too few passed to know what is usual.

    Less than that where pairs differ from themselves by more from one measurement to the next: then the machines are
    busy with something else, and smaller differences between pairs mean nothing. Of several measurements of a pair the
    best counts, because disturbance only ever makes a pair slower. Where up to half of the pairs are slow, the median
    lies between two heaps; then what lies between them is the limit. So it is where three are all there is.
    """
    speeds = _speeds(rails).values()
    best = sorted(max(measured) for measured in speeds)
    peers = usual(best)
    if len(best) < FEW:
        return 0.0
    unrest = statistics.median(min(measured) / max(measured) for measured in speeds)
    if peers is None:  # of three in a ring two are slow if one end is
        return _between_heaps(best, HEAPS * unrest)
    limit = min(peers.limit(SLOW, DEVIATIONS), unrest * peers.median)
    return max(limit, _between_heaps(best, HEAPS * unrest)) if peers.spread > UNLIKE * peers.median else limit


def _between_heaps(ordered: Sequence[float], apart: float) -> float:
    """The middle of the widest gap in the lower half (of three, anywhere), if below it nobody reaches `apart` of what
    is above; else 0."""
    gaps = [(ordered[place] / ordered[place + 1], place) for place in range(max(2, len(ordered) // 2))]
    share, place = min(gaps)
    return (ordered[place] + ordered[place + 1]) / 2 if share < apart else 0.0


def with_slow(observations: Sequence[Observation], below: float) -> list[Observation]:
    """The same observations; the tests of a pair that was never as fast as `below` are called slow."""
    slow = {pair for pair, measured in _speeds(observations).items() if max(measured) < below}
    return [
        replace(seen, test=replace(seen.test, outcome=TestOutcome.SLOW))
        if seen.test.members in slow and seen.test.outcome is TestOutcome.PASS and seen.test.op == JUDGED
        else seen
        for seen in observations
    ]
