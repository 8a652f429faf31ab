"""Work that passes while something else is waited for."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from preflight.cli.common import Session
from preflight.facts.types import ClusterFacts, HostFacts, Unreachable
from preflight.model.cluster import Host

if TYPE_CHECKING:
    from concurrent.futures import Future

    from preflight.model.rehearsal import Rehearsal

T = TypeVar("T")
L = TypeVar("L")
FOR_EVER = float("inf")  # the moment by which work is done that may take as long as it takes


def in_background(work: Callable[[], T]) -> "Future[T]":
    """A daemon thread and not an executor, whose threads would have to end before Ctrl-C can."""
    from concurrent.futures import Future

    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def left(until: float) -> float | None:
    """Seconds until that moment of the monotonic clock, as waiting takes them: None for no limit."""
    return None if until == FOR_EVER else max(0.0, until - time.monotonic())


def result_by(future: "Future[T]", until: float, late: L) -> T | L:
    """Its result, `late` where it has none by then; raises what it raised."""
    from concurrent.futures import wait

    return future.result() if wait([future], left(until)).done else late


class FactsOfHosts:
    """Hosts that are looked at in the background. Whoever needs some of them does not wait for others."""

    def __init__(self, s: Session, sections: Sequence[str]) -> None:
        from preflight.facts.collect import collect

        self._known: dict[str, HostFacts | Unreachable] = {}
        self._news = threading.Condition()
        self._all = in_background(
            lambda: collect(
                s.cluster,
                s.hosts,
                s.transport,
                progress=None,
                ports=s.cluster.ports,
                sections=sections,
                heard=self._hear,
            )
        )
        self._all.add_done_callback(lambda _: self._wake())

    def _hear(self, host: str, facts: HostFacts) -> None:
        self._known[host] = facts
        self._wake()

    def _wake(self) -> None:
        with self._news:
            self._news.notify_all()

    def of(self, hosts: Sequence[Host], until: float = FOR_EVER) -> ClusterFacts:
        """All that is known when `hosts` have told of themselves, or cannot, or at `until`: those that are late then
        are not in it."""
        with self._news:
            self._news.wait_for(lambda: self._all.done() or self._know(hosts), left(until))
            return self._all.result() if self._all.done() else ClusterFacts(dict(self._known))

    def _know(self, hosts: Sequence[Host]) -> bool:
        return all(host.name in self._known for host in hosts)


def rehearse_ports(
    s: Session, backend: str, hosts: Callable[[], Sequence[Host]], until: float = FOR_EVER
) -> "Future[Rehearsal]":
    """The port rehearsal over the `hosts` that may be used, as soon as they are known. Says at once if something does
    not come through: whoever runs into that waits for a time-out."""
    from preflight.probe.rehearsal import rehearse

    def work() -> "Rehearsal":
        seen = rehearse(s.cluster, hosts(), s.transport, backend, until=until)
        if any(visit.dead for visit in seen.visits):
            s.progress.note("port rehearsal: not all connections come through; what needs them will wait (see PRB114)")
        return seen

    return in_background(work)


def unreached(rehearsal: "Future[Rehearsal]") -> frozenset[str]:
    """The hosts of which a rehearsal that is over says so."""
    known = rehearsal.done() and not rehearsal.exception()
    return rehearsal.result().unreached if known else frozenset()


def reached(hosts: Sequence[Host], facts: ClusterFacts) -> list[Host]:
    return [host for host in hosts if isinstance(facts.hosts.get(host.name), HostFacts)]
