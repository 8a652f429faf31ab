"""Who wants a host's processors beside preflight itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Busy:
    """A process. `wanted`, `used`: in processors, averaged; it may get less than it wants."""

    pid: int
    name: str
    wanted: float
    used: float
    user: str | None = None  # None: not known, it may have ended


@dataclass(frozen=True)
class Load:
    """What the collector saw in `seconds`. `limit`: processors' worth of time that a cgroup leaves all of the host;
    None: no limit. `wanted`: by all processes but preflight's own and the kernel's; `others`: how many of them want a
    tenth of a processor or more; `busiest`: the first few of these."""

    processors: int
    limit: float | None
    wanted: float
    others: int
    seconds: float
    busiest: tuple[Busy, ...]

    @property
    def available(self) -> float:
        """Processors, or their worth of time, that all processes have together."""
        return min(self.processors, self.limit or self.processors)
