"""Load of a host's processors by processes other than preflight's."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Busy:
    """A process. `wanted`, `used`: processors, averaged. A process may get less than it wants."""

    pid: int
    name: str
    wanted: float
    used: float
    user: str | None = None  # None: not known, it may have ended


@dataclass(frozen=True)
class Load:
    """The load that the collector measured in `seconds`.

    `limit`: processors' worth of time that a cgroup allows the whole host. None: no limit. `wanted`: processors that
    all processes want, except preflight's own and the kernel's. `others`: how many of these processes want a tenth of a
    processor or more. `busiest`: the first few of them.
    """

    processors: int
    limit: float | None
    wanted: float
    others: int
    seconds: float
    busiest: tuple[Busy, ...]

    @property
    def available(self) -> float:
        """Processors, or their worth of time, that all processes share."""
        return min(self.processors, self.limit or self.processors)
