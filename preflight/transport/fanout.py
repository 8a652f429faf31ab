"""Concurrent work on many hosts: bounded, with a deadline for each, results in the inventory's order."""

import queue
import resource
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from preflight.model.cluster import Host
from preflight.transport import attempt as attempts
from preflight.transport import errors
from preflight.transport.attempt import Attempt
from preflight.transport.types import Progress, TransportError

T = TypeVar("T")

MOST_AT_ONCE = 64  # paramiko gains nothing beyond (measured: 198 hosts/s with 32, 260 with 64, 264 with 128 threads)
_TICK = 0.5  # seconds between two checks of deadlines and two progress reports while nothing happens


@dataclass(frozen=True)
class FanOutLimits:
    """Hosts at a time (64 at most, and a third of the open-file limit), and seconds for each from its own start."""

    pool: int
    deadline: float

    @property
    def width(self) -> int:
        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = MOST_AT_ONCE if open_files == resource.RLIM_INFINITY else min(MOST_AT_ONCE, open_files // 3)
        return max(1, min(self.pool, limit))


def fan_out(
    hosts: Sequence[Host],
    work: Callable[[Host], T],
    limits: FanOutLimits,
    *,
    progress: Callable[[Progress], None] | None = None,
    phase: str = "",
) -> dict[str, T | TransportError]:
    """Call `work` for every host, several hosts at a time.

    Returns the results in the order of `hosts`. After its deadline, the connection of a host is dropped, and its result
    is a TransportError that names the step at which it waited.
    Other exceptions are bugs of `work`. Like KeyboardInterrupt they break off all hosts and propagate without waiting.
    """
    return _FanOut(work, limits.deadline, progress, phase, hosts).run(limits.width)


class _FanOut(Generic[T]):
    """One thread for each host, started by the calling thread as soon as a running one ends.

    Daemon threads, not concurrent.futures: the interpreter joins an executor's threads when it exits.
    A thread that hangs in name resolution would then keep the command from ending.
    """

    def __init__(
        self,
        work: Callable[[Host], T],
        deadline: float,
        progress: Callable[[Progress], None] | None,
        phase: str,
        hosts: Sequence[Host],
    ) -> None:
        self._work = work
        self._deadline = deadline
        self._progress = progress
        self._phase = phase
        self._order = [host.name for host in hosts]
        self._waiting = deque(hosts)
        self._running: dict[str, Attempt] = {}
        self._results: dict[str, T | TransportError] = {}
        self._ended: queue.SimpleQueue[tuple[str, Attempt, Future[T]]] = queue.SimpleQueue()

    def run(self, width: int) -> dict[str, T | TransportError]:
        self._report()  # the start
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < width:
                    self._start(self._waiting.popleft())
                self._collect()
                self._abandon_overdue()
                self._report()
        finally:
            for attempt in self._running.values():  # none, unless an exception is on its way
                attempt.break_off()
        return {name: self._results[name] for name in self._order}

    def _start(self, host: Host) -> None:
        attempt = Attempt(host.name)
        self._running[host.name] = attempt
        threading.Thread(target=self._one_host, args=(host, attempt), name=f"host-{host.name}", daemon=True).start()

    def _one_host(self, host: Host, attempt: Attempt) -> None:
        attempts.begin(attempt)
        future: Future[T] = Future()
        try:
            future.set_result(self._work(host))
        except BaseException as error:  # handled by the calling thread
            future.set_exception(error)
        self._ended.put((host.name, attempt, future))

    def _collect(self) -> None:
        """Take the results of all hosts that have ended; wait for one if there is none."""
        try:
            outcome = self._ended.get(timeout=self._timeout())
            while True:
                self._take(*outcome)
                outcome = self._ended.get_nowait()
        except queue.Empty:
            pass

    def _timeout(self) -> float:
        until_deadline = min(self._deadline - attempt.seconds for attempt in self._running.values())
        return max(0.0, min(_TICK, until_deadline))

    def _take(self, name: str, attempt: Attempt, future: Future[T]) -> None:
        if self._running.get(name) is not attempt:
            return  # abandoned before
        del self._running[name]
        try:
            self._results[name] = future.result()
        except TransportError as error:
            self._results[name] = error
        except BaseException as error:
            error.add_note(f"while working on host {name}")
            raise

    def _abandon_overdue(self) -> None:
        for name, attempt in tuple(self._running.items()):
            if attempt.seconds >= self._deadline:
                del self._running[name]
                self._results[name] = errors.abandoned(name, attempt.seconds, attempt.waiting_for)
                attempt.break_off()

    def _report(self) -> None:
        if self._progress is None:
            return
        slowest = min(self._running.items(), key=lambda item: item[1].started, default=None)
        failed = sum(isinstance(result, TransportError) for result in self._results.values())
        self._progress(
            Progress(
                done=len(self._results),
                total=len(self._order),
                failed=failed,
                slowest=slowest[0] if slowest else None,
                seconds=slowest[1].seconds if slowest else 0.0,
                waiting_for=slowest[1].waiting_for if slowest else "",
                phase=self._phase,
            )
        )
