"""Speeds of equal devices or processors, and the limits below which one of them is slow."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from preflight.model.peers import usual

_WARN_FAR, _FAIL_FAR = 3.0, 5.0  # spreads from the median


@dataclass(frozen=True)
class SpeedLimits:
    """The median speed, and the speeds below which a warning and a failure are due."""

    median: float
    warn: float
    fail: float


def speed_limits(measured: Collection[Sequence[float]], warn: float, fail: float) -> SpeedLimits | None:
    """Return the limits for shares `warn` and `fail` of the median, None if too few were measured.

    The better of two measurements counts, since noise only makes one slower. If the median one differs from itself by
    more than a limit, only larger differences count."""
    peers = usual([max(speeds) for speeds in measured])
    steadiness = usual([min(speeds) / max(speeds) for speeds in measured])
    if peers is None or steadiness is None:
        return None
    steady = peers.median * steadiness.median
    return SpeedLimits(
        peers.median, min(steady, peers.limit(warn, _WARN_FAR)), min(steady, peers.limit(fail, _FAIL_FAR))
    )
