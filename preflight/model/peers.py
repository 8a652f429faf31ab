"""What is usual among peers: the median, and how far healthy ones lie from it."""

from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 4  # peers; a median of fewer says little


@dataclass(frozen=True)
class Usual:
    """Of figures where more is better, in their unit. `spread` stands for a standard deviation: 1.4826 times the median
    absolute deviation, and at least 1 % of the median, so that peers that are all alike do not convict for a trifle."""

    median: float
    spread: float

    def limit(self, share: float, deviations: float) -> float:
        """The figure below which a peer is unusual: under `share` of the median, and outside `deviations` spreads."""
        return min(share * self.median, self.median - deviations * self.spread)


def usual(figures: Sequence[float]) -> Usual | None:
    """None where there are fewer than FEWEST figures."""
    if len(figures) < FEWEST:
        return None
    from statistics import median  # its import costs more than listing all checks

    middle = median(figures)
    return Usual(middle, max(1.4826 * median(abs(figure - middle) for figure in figures), 0.01 * middle))
