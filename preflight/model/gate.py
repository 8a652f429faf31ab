"""Policy of the gate: checks that close a host to jobs, and the effect of its answer in each context."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Context(StrEnum):
    """Caller of the gate. The first five are Slurm's, from SLURM_SCRIPT_CONTEXT."""

    PROLOG = "prolog"
    EPILOG = "epilog"
    TASK = "task"
    HEALTH = "health"
    CONTROLLER = "controller"  # PrologSlurmctld
    JOB = "job"  # within a job, or manually
    INIT = "init"  # an init container


class Unknown(StrEnum):
    """Treatment of a job if the host's state is unknown."""

    OPEN = "open"  # the job runs, and that is recorded
    CLOSED = "closed"


UNKNOWN = {
    **dict.fromkeys(Context, Unknown.OPEN),
    Context.JOB: Unknown.CLOSED,
    Context.INIT: Unknown.CLOSED,
}


@dataclass(frozen=True)
class DrainLimit:
    """Maximum number, or percentage, of nodes that preflight may take out of service."""

    nodes: int | None = None
    percent: float | None = 10.0  # of all nodes; one node may always be drained


@dataclass(frozen=True)
class GatePolicy:
    """The operator's rules. Checks are given as in `--only`: an id, an area or a prefix."""

    max_age: float = 24 * 3600.0  # seconds for which a verdict of `check` is valid
    probe_max_age: float = 7 * 24 * 3600.0  # of the probe
    need_probe: bool = False  # whether a host without a passed probe is unknown
    required: tuple[str, ...] = ()  # only these close the gate; empty: all that are not optional
    optional: tuple[str, ...] = ()  # recorded only
    off: tuple[str, ...] = ()  # not run
    unknown: Mapping[Context, Unknown] = field(default_factory=lambda: dict(UNKNOWN))
    drain: DrainLimit = DrainLimit()
    undrain: bool = False  # whether nodes that preflight drained are resumed once they are healthy
    requeues: int = 3  # times that the controller's gate requeues a job before it holds it
