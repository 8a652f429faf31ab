"""What the operator asks the probe for."""

from dataclasses import dataclass

from preflight.model.measure import Scope

# In the order in which they are run: what is cheap and needs least comes first, so that a device that is broken by
# itself is known, and left out, before others wait for it.
SCOPES = (Scope.DEVICE, Scope.HOST, Scope.ALL, Scope.RAIL, Scope.PAIR)
USUAL = (Scope.DEVICE, Scope.ALL, Scope.PAIR)


@dataclass(frozen=True)
class Request:
    """`sizes` are bytes, `budget` seconds for everything, None for no limit. `quick`: fewer operations. `seed`: who
    meets whom in the first round of pairs, None for another one each time."""

    backend: str
    sizes: tuple[int, ...]
    scopes: tuple[Scope, ...] = USUAL
    quick: bool = False
    budget: float | None = None
    seed: int | None = None

    @property
    def trains(self) -> bool:
        """Whether the training step belongs to it, which is everybody's last test."""
        return Scope.ALL in self.scopes and not self.quick
