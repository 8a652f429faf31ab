"""The site's engine, such as srun, as the way of a probe: opened, started, and found to have ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from preflight.app.run_options import ProbeOptions
from preflight.app.session import Session
from preflight.app.site_engine import ENGINES, engine_of, open_site_engine, start, stop_if_ended
from preflight.model.errors import UsageError


@contextmanager
def session_by_engine(options: ProbeOptions, s: Session) -> Iterator[Session]:
    """Yield the session, over the site's engine if requested. Raise UsageError if that is impossible from here."""
    via = options.via or s.cluster.probe.via
    s = s._replace(cluster=replace(s.cluster, probe=replace(s.cluster.probe, via=via)))
    if via not in ENGINES:  # ssh, or pods, which have to arrive first
        yield s
        return
    if options.tool == "hccl-test":
        raise UsageError(f"HCCL Test does not run over {via}: it starts its ranks with mpirun and ssh. Use --via ssh.")
    with open_site_engine(via, options, s.hosts) as engine:
        yield s._replace(transport=engine)


def start_engine(s: Session, budget: float | None) -> None:
    """Start the site's engine, within half of the budget.

    Raise NotSeenError if it starts nothing: no host is at fault.
    """
    if engine := engine_of(s.cluster.probe.via, s.transport):
        start(engine, s.hosts, s.progress, budget / 2 if budget else None)


def stop_without_engine(s: Session) -> None:
    """Raise NotSeenError if the engine has ended by itself, which is no host's fault."""
    if engine := engine_of(s.cluster.probe.via, s.transport):
        stop_if_ended(engine)
