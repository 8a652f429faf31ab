"""The site's engine, such as srun, in place of ssh: opened, started, and found to have ended."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from preflight.app.run_options import ProbeOptions
from preflight.app.session import Session
from preflight.model.errors import NotSeenError, UsageError

if TYPE_CHECKING:  # most runs go by ssh, and load no engine
    from preflight.transport.engine import Engine


@contextmanager
def session_by_engine(options: ProbeOptions, s: Session) -> Iterator[Session]:
    """Yield the session, over the site's engine if requested. Raise UsageError if that is impossible from here."""
    via = options.via or s.cluster.probe.via
    s = s._replace(cluster=replace(s.cluster, probe=replace(s.cluster.probe, via=via)))
    if via in ("ssh", "pods"):  # pods have to arrive first
        yield s
        return
    if options.ask_sudo_password:
        raise UsageError(
            f"-K does not work with --via {via}, since all hosts would receive the password. Let sudo work without "
            "a password (NOPASSWD), or use --via ssh."
        )
    if options.tool == "hccl-test":
        raise UsageError(f"HCCL Test does not run over {via}: it starts its ranks with mpirun and ssh. Use --via ssh.")
    from preflight.transport.engine import open_engine

    with open_engine(via, s.hosts, os.environ) as engine:
        yield s._replace(transport=engine)


def start_engine(s: Session, budget: float | None) -> None:
    """Start the site's engine, within half of the budget.

    Raise NotSeenError if it starts nothing: no host is at fault.
    """
    if engine := _engine(s):
        s.progress.say(f"waiting for the hosts to connect over {s.cluster.probe.via}")
        engine.begin(s.hosts, budget / 2 if budget else None)
        stop_without_engine(s)


def stop_without_engine(s: Session) -> None:
    """Raise NotSeenError if the engine has ended by itself, which is no host's fault."""
    engine = _engine(s)
    if engine and engine.ended:
        raise NotSeenError(f"the probe did not run: {engine.ended}. Leave out unreachable hosts with --limit.")


def _engine(s: Session) -> "Engine | None":
    if s.cluster.probe.via == "ssh":
        return None
    from preflight.transport.engine import Engine

    return s.transport if isinstance(s.transport, Engine) else None
