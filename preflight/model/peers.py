"""Usual figures among peers: their median, and the spread of healthy peers around it."""

from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 4  # peers that a median needs


@dataclass(frozen=True)
class Usual:
    """Median and spread of figures for which more is better, in their unit.

    `spread` estimates a standard deviation: 1.4826 times the median absolute deviation. It is at least 1 % of the
    median, so that among equal peers a tiny difference is not unusual.
    """

    median: float
    spread: float

    def limit(self, share: float, deviations: float) -> float:
        """Return the figure below which a peer is unusual: by `share` of the median and by `deviations` spreads."""
        return min(share * self.median, self.median - deviations * self.spread)


def usual(figures: Sequence[float]) -> Usual | None:
    """Return the usual figure, None for fewer than FEWEST figures."""
    if len(figures) < FEWEST:
        return None
    from statistics import median  # its import costs more than listing all checks

    middle = median(figures)
    return Usual(middle, max(1.4826 * median(abs(figure - middle) for figure in figures), 0.01 * middle))
