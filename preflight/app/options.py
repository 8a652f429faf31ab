"""Options of use cases. The command line has arguments of the same names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from preflight.model.errors import UsageError
from preflight.model.measure import Scope

DEFAULT_INVENTORY = Path("hosts.toml")


@dataclass(frozen=True)
class HostOptions:
    """Hosts that a command contacts, and the way to them. `pool` is the number of hosts at once."""

    inventory: Path = DEFAULT_INVENTORY
    limit: str | None = None
    accept_new: bool = False
    ask_sudo_password: bool = False
    pool: int = 32


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
    via: str | None = None

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


@dataclass(frozen=True)
class ChangePermissions:
    """Permission to change what a job uses now, or what may disturb one."""

    allow_disturbing: bool = False
    force_busy: bool = False


def refuse_partial(partial: Mapping[str, object], wanted: str) -> None:
    """Raise UsageError if `--publish` would present a partial run as a whole one.

    `partial` maps options to their values. A set one makes the run partial. `wanted` names the whole run.
    """
    if options := [option for option, value in partial.items() if value]:
        raise UsageError(f"--publish is for {wanted}, by which the gate decides; leave out {', '.join(options)}")
