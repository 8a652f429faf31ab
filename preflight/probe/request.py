"""Request of the operator to the probe."""

from dataclasses import dataclass

from preflight.model.measure import Scope

# In the order of the rounds, small groups first. What fails in a small group is known, and left out, before the ranks
# of a larger group wait for it.
SCOPES = (Scope.DEVICE, Scope.HOST, Scope.PAIR, Scope.RAIL, Scope.ALL)
USUAL = (Scope.DEVICE, Scope.PAIR, Scope.ALL)


@dataclass(frozen=True)
class Request:
    """Parameters of a probe run.

    `sizes` are bytes. `budget` is seconds for the whole run, None for no limit. `quick`: fewer operations. `seed`
    decides on the pairs of the first round, None draws a new one each time.
    """

    backend: str
    sizes: tuple[int, ...]
    scopes: tuple[Scope, ...] = USUAL
    quick: bool = False
    budget: float | None = None
    seed: int | None = None

    @property
    def trains(self) -> bool:
        """True if the training step is run, the last test of all devices together."""
        return Scope.ALL in self.scopes and not self.quick
