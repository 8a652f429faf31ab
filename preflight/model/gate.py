"""The gate: what may close a host to jobs, and what its answer leads to in each place that asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Context(StrEnum):
    """Who asks the gate. The first five are Slurm's, told by SLURM_SCRIPT_CONTEXT."""

    PROLOG = "prolog"
    EPILOG = "epilog"
    TASK = "task"
    HEALTH = "health"
    CONTROLLER = "controller"  # PrologSlurmctld
    JOB = "job"  # within a job, or by hand
    INIT = "init"  # an init container


class Unknown(StrEnum):
    """What becomes of a job where nobody can say whether the host is good."""

    OPEN = "open"  # it runs, and that is recorded
    CLOSED = "closed"


UNKNOWN = {
    **dict.fromkeys(Context, Unknown.OPEN),
    Context.JOB: Unknown.CLOSED,
    Context.INIT: Unknown.CLOSED,
}


@dataclass(frozen=True)
class DrainLimit:
    """Never more of the nodes out of service by preflight than so many, or than so large a part."""

    nodes: int | None = None
    percent: float | None = 10.0  # of all nodes; one node may always be drained


@dataclass(frozen=True)
class GatePolicy:
    """The operator's rules. Checks are named as in `--only`: an id, an area or a prefix."""

    max_age: float = 24 * 3600.0  # seconds that a verdict of `check` counts
    probe_max_age: float = 7 * 24 * 3600.0  # of the probe
    need_probe: bool = False  # whether a host that no probe has proved is unknown
    required: tuple[str, ...] = ()  # these alone close the gate; none: all that are not optional
    optional: tuple[str, ...] = ()  # recorded, and close nothing
    off: tuple[str, ...] = ()  # not even looked at
    unknown: Mapping[Context, Unknown] = field(default_factory=lambda: dict(UNKNOWN))
    drain: DrainLimit = DrainLimit()
    undrain: bool = False  # whether nodes that preflight drained are given back once they are good
    requeues: int = 3  # of one job by the controller's gate, before it is held
