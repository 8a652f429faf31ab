"""Options of use cases. The command line has arguments of the same names."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING

from preflight.model.errors import UsageError

if TYPE_CHECKING:
    from preflight.app.stream import RunStream


class DefaultPath(PosixPath):
    """Path of an inventory that no option gave: that of the user's settings, or hosts.toml."""


DEFAULT_INVENTORY = DefaultPath("hosts.toml")
DEFAULT_POOL = 4096  # hosts at once


@dataclass(frozen=True)
class HostOptions:
    """Hosts that a command contacts, and the way to them. `pool` is the number of hosts at once.

    `hosts` are names of hosts that are contacted without an inventory, or None. `via` is the site's engine that
    reaches the hosts, "slurm" or "mpi"; None or "ssh": each host's transport. `stream` receives findings and progress
    as they come.
    """

    inventory: Path = DEFAULT_INVENTORY
    hosts: str | None = None
    limit: str | None = None
    accept_new: bool = False
    ask_sudo_password: bool = False
    pool: int = DEFAULT_POOL
    via: str | None = None
    stream: "RunStream | None" = None


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
        raise UsageError(f"--publish needs {wanted}, since the gate relies on it. Remove {', '.join(options)}.")
