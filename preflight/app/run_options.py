"""Options of runs that are judged: check, probe and exec."""

from collections.abc import Sequence
from dataclasses import dataclass

from preflight.app.options import HostOptions
from preflight.model.measure import Scope

BUDGET = 300.0  # seconds for a check or probe, unless --budget gives another value
LEAST_BUDGET = 10.0  # seconds; importing torch and exiting take a few of them


@dataclass(frozen=True)
class RunOptions(HostOptions):
    """Options of every run that is judged. `again` is the command that repeats it."""

    idle: bool = False
    publish: bool = False
    fail_on: str = "fail"
    again: str = ""

    @property
    def test_selection(self) -> str:
        """Return the options that make figures incomparable: fewer groups, or other sizes."""
        return ""


@dataclass(frozen=True)
class CheckOptions(RunOptions):
    """Options of a check. `only`, `skip` and `ignore` are ids of checks, areas or prefixes."""

    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    ignore: Sequence[str] = ()
    basic: bool = False
    no_ping: bool = False
    mesh: bool = False
    cross_rail: bool = False
    ping_size: int | None = None
    no_probe: bool = False
    budget: float | None = None
    buddies: str | None = None


@dataclass(frozen=True)
class ProbeOptions(RunOptions):
    """Options of a probe. What is not given is that of the inventory."""

    backend: str | None = None
    tool: str | None = None
    sizes: tuple[int, ...] = ()
    init: str | None = None
    scope: tuple[Scope, ...] | None = None
    quick: bool = False
    seed: int | None = None
    budget: float | None = None

    @property
    def test_selection(self) -> str:
        lists = {"scope": self.scope, "sizes": self.sizes}
        words = ["--quick"] if self.quick else []
        words += [f"--{name} {','.join(map(str, values))}" for name, values in lists.items() if values]
        return " ".join(words)


@dataclass(frozen=True)
class ExecOptions(ProbeOptions):
    """Options of a job on healthy nodes."""

    nodes: int | None = None
    unknown: str = "closed"
    per_device: bool = False
    devices: tuple[int, ...] | None = None
    product: str = ""
    master_port: int | None = None
    no_rank_table: bool = False
    env: Sequence[str] = ()
    program: Sequence[str] = ()
