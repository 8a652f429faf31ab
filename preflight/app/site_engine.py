"""The site's engine (Slurm's srun, Open MPI's mpirun) as the way to the hosts of a command, in place of ssh."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from preflight.app.options import HostOptions
from preflight.app.progress_line import ProgressLine
from preflight.model.cluster import Host
from preflight.model.errors import NotSeenError, UsageError
from preflight.transport.types import Transport

if TYPE_CHECKING:  # most runs go by ssh, and load no engine
    from preflight.transport.engine import Engine

ENGINES = ("slurm", "mpi")


def open_site_engine(via: str, options: HostOptions, hosts: Sequence[Host]) -> "Engine":
    """Return an engine that has not started. Raise UsageError if it cannot be started from here."""
    if options.ask_sudo_password:
        raise UsageError(
            f"-K does not work with --via {via}, since all hosts would receive the password. Let sudo work without "
            "a password (NOPASSWD), or use --via ssh."
        )
    from preflight.transport.engine import open_engine

    return open_engine(via, hosts, os.environ)


def engine_of(via: str, transport: Transport) -> "Engine | None":
    """Return the transport if it is an engine, else None."""
    if via == "ssh":
        return None
    from preflight.transport.engine import Engine

    return transport if isinstance(transport, Engine) else None


def start(engine: "Engine", hosts: Sequence[Host], progress: ProgressLine, limit: float | None = None) -> None:
    """Start the engine and wait for the hosts, `limit` seconds at most.

    Raise NotSeenError if it starts nothing: no host is at fault.
    """
    progress.say("waiting for the hosts to connect over the site's engine")
    engine.begin(hosts, limit)
    stop_if_ended(engine)


def stop_if_ended(engine: "Engine") -> None:
    """Raise NotSeenError if the engine has ended by itself, which is no host's fault."""
    if engine.ended:
        raise NotSeenError(
            f"no answer over the site's engine: {engine.ended}. Leave out unreachable hosts with --limit."
        )
