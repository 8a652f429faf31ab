"""Work in background threads: facts of hosts, and the port rehearsal."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

from preflight.app.session import Session
from preflight.facts.collect import FactsRequest, collect
from preflight.facts.types import ClusterFacts, HostFacts, Unreachable
from preflight.model.cluster import Host
from preflight.model.rehearsal import Rehearsal
from preflight.probe.rehearsal import RehearsalRequest, rehearse

T = TypeVar("T")
L = TypeVar("L")
FOR_EVER = float("inf")  # a deadline for work without a time limit


def in_background(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a daemon thread and return its future.

    An executor's threads would have to end before Ctrl-C can end the process.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def left(until: float) -> float | None:
    """Return the seconds until that moment of the monotonic clock; None, for no limit, if it is FOR_EVER."""
    return None if until == FOR_EVER else max(0.0, until - time.monotonic())


def result_by(future: Future[T], until: float, late: L) -> T | L:
    """Return the future's result, or `late` if it has none at `until`. Raise what the work raised."""
    return future.result() if wait([future], left(until)).done else late


class FactsOfHosts:
    """Facts of hosts, collected in the background. A caller that needs some hosts does not wait for others."""

    def __init__(self, s: Session, sections: Sequence[str]) -> None:
        self._known: dict[str, HostFacts | Unreachable] = {}
        self._news = threading.Condition()
        self._all = in_background(
            lambda: collect(
                FactsRequest(s.cluster, s.hosts, sections=sections), s.transport, progress=None, on_facts=self._hear
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
        """Wait until the facts of `hosts` are known, or the collection has ended, or `until`. Return all facts so far.

        Hosts that have not answered by then are not in the result.
        """
        with self._news:
            self._news.wait_for(lambda: self._all.done() or self._know(hosts), left(until))
            return self._all.result() if self._all.done() else ClusterFacts(dict(self._known))

    def _know(self, hosts: Sequence[Host]) -> bool:
        return all(host.name in self._known for host in hosts)


def rehearse_ports(
    s: Session, backend: str, hosts: Callable[[], Sequence[Host]], until: float = FOR_EVER
) -> Future[Rehearsal]:
    """Start the port rehearsal over the usable `hosts`, as soon as they are known.

    Note at once if some connections fail, since work that needs them waits until its timeout.
    """

    def work() -> Rehearsal:
        rehearsal = rehearse(RehearsalRequest(s.cluster, hosts(), backend), s.transport, until=until)
        if any(visit.dead for visit in rehearsal.visits):
            s.progress.note(
                "port rehearsal: some connections fail (PRB114). Tests that need them wait for their timeout."
            )
        return rehearsal

    return in_background(work)


def unreached(rehearsal: Future[Rehearsal]) -> frozenset[str]:
    """Return the hosts that a finished rehearsal could not reach; none before it has finished."""
    finished = rehearsal.done() and not rehearsal.exception()
    return rehearsal.result().unreached if finished else frozenset()


def reached(hosts: Sequence[Host], facts: ClusterFacts) -> list[Host]:
    return [host for host in hosts if isinstance(facts.hosts.get(host.name), HostFacts)]
