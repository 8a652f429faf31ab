"""Deadlines of steps in a probe with limited time. Pure; all times are seconds.

A round in which no group shows how long its tests take lasts until the deadline of what hangs. So a deadline is short
enough for all of these rounds, and never so short that a step that is merely slow passes for a hang.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from preflight.model.measure import Scope

# Least time until a step counts as hung, whatever the budget. HCCL: torch_npu is loaded from a cold file system, the
# driver opens the device, a communicator is made. Pairs have less, since the other pairs of their round set the norm.
LEAST = {"hccl": 15.0, "nccl": 10.0, "gloo": 10.0}
LEAST_OF_A_PAIR = 10.0
# More for each rank that has to meet the others. HCCL's guide gives 240 s to 3,000 ranks and 600 s to 5,000.
LEAST_A_RANK = {"hccl": 0.08, "nccl": 0.04, "gloo": 0.04}
SLOW = 3.0  # times the expected duration of a test

# Time until the driver gives back a device after its worker was killed.
FREE = {"hccl": 10.0, "nccl": 0.0, "gloo": 0.0}


@dataclass(frozen=True)
class Ahead:
    """Time and rounds of a probe from the beginning of a round on.

    `left`: seconds until it has to end. `healthy`: seconds that this round and all later ones take if no device hangs.
    `hangs`: rounds that hang until the device is identified, this one included. `free`: seconds after each of them
    until its devices can be used again. `least`: seconds that a step may take in any case.
    """

    left: float
    healthy: float
    hangs: int
    free: float
    least: float

    def step(self, usual: float) -> float:
        """Return the seconds that a step of this round may take: `usual`, or less where the time is short."""
        share = (self.left - self.healthy) / self.hangs - self.free
        return min(usual, max(self.least, share))

    def needed(self, step: float) -> float:
        """Return the value of `left` that steps of `step` seconds need."""
        return self.healthy + self.hangs * (step + self.free)


def hanging_rounds(scope: Scope, later: Sequence[Scope]) -> int:
    """Return how many rounds last until their deadline if one device hangs, from a round of `scope` on.

    A device alone is identified by its own test, and left out. A device of a host may hang again in the pairs, if these
    are among the `later` scopes. There, further rounds are short, once pairs have passed.
    """
    return 2 if scope is Scope.HOST and Scope.PAIR in later else 1


def least(backend: str, scope: Scope, ranks: int, expected: float) -> float:
    """Return the seconds that a step of a round has in any case.

    `ranks`: of its largest group. `expected`: seconds that its longest test takes on a healthy cluster.
    """
    base = LEAST_OF_A_PAIR if scope is Scope.PAIR else LEAST[backend]
    return base + (0.0 if scope is Scope.DEVICE else LEAST_A_RANK[backend] * ranks) + SLOW * expected


def enough(spent: float, ahead: Ahead, usual: float) -> float:
    """Return a budget in which a step of this round could take twice as long, rounded up to half minutes.

    `spent`: seconds of the run until now, and those that its end takes.
    """
    step = min(usual, 2 * ahead.step(usual))
    return 30.0 * math.ceil((spent + ahead.needed(step)) / 30)
