"""Concurrent work on many hosts: bounded, with a deadline for each, results in the inventory's order."""

import math
import queue
import resource
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from preflight.model.cluster import Host
from preflight.transport import attempt as attempts
from preflight.transport import errors, process_limits
from preflight.transport.attempt import Attempt
from preflight.transport.types import Progress, TransportError

T = TypeVar("T")

MOST_AT_ONCE = 4096  # hosts: each has two threads on the controller, and an open file
# Hosts that log in at the same time. A login is work for the controller's processor, and paramiko gains nothing beyond
# (measured: 198 logins/s with 32, 260 with 64, 264 with 128 threads). A host that logged in only has to be waited for.
LOGINS = 64
_TICK = 0.5  # seconds between two checks of deadlines while nothing happens
_REPORT = 0.1  # seconds between two progress reports


@dataclass(frozen=True)
class RunLimits:
    """Limits of a whole run: hosts at a time, and the moment of the monotonic clock at which it gives up hosts."""

    pool: int = MOST_AT_ONCE
    until: float = math.inf

    def each(self, deadline: float) -> "FanOutLimits":
        """Return the limits of a fan-out with so many seconds for each host."""
        return FanOutLimits(self.pool, deadline, self.until)


NO_LIMITS = RunLimits()


@dataclass(frozen=True)
class FanOutLimits:
    """Hosts at a time, seconds for each from its own start, and the moment of the monotonic clock that ends all.

    There are never more hosts at a time than a third of the open-file limit, or a fourth of the thread limit.
    """

    pool: int
    deadline: float
    until: float = math.inf

    @property
    def width(self) -> int:
        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        by_files = MOST_AT_ONCE if open_files == resource.RLIM_INFINITY else open_files // 3
        return max(1, int(min(self.pool, MOST_AT_ONCE, by_files, process_limits.most_threads() // 4)))


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
    is a TransportError that names the step at which it waited. At the end of the limits, hosts without a result get a
    TransportError of kind BUDGET.
    Other exceptions are bugs of `work`. Like KeyboardInterrupt they break off all hosts and propagate without waiting.
    """
    return _FanOut(work, limits, progress, phase, hosts).run()


class _FanOut(Generic[T]):
    """One thread for each host, started by the calling thread as soon as a place is free.

    Daemon threads, not concurrent.futures: the interpreter joins an executor's threads when it exits.
    A thread that hangs in name resolution would then keep the command from ending.
    """

    def __init__(
        self,
        work: Callable[[Host], T],
        limits: FanOutLimits,
        progress: Callable[[Progress], None] | None,
        phase: str,
        hosts: Sequence[Host],
    ) -> None:
        self._work = work
        self._deadline = limits.deadline
        self._until = limits.until
        self._progress = progress
        self._phase = phase
        self._order = [host.name for host in hosts]
        self._waiting = deque(hosts)
        self._running: OrderedDict[str, Attempt] = OrderedDict()  # in the order of their starts
        self._logging_in: set[str] = set()
        self._results: dict[str, T | TransportError] = {}
        self._failed = 0
        self._width = limits.width
        self._events: queue.SimpleQueue[tuple[Attempt, Future[T] | None]] = queue.SimpleQueue()  # None: the login

    def run(self) -> dict[str, T | TransportError]:
        self._report()  # the start
        reported = time.monotonic()
        try:
            while self._waiting or self._running:
                self._start_next()
                self._take_events()
                self._abandon_overdue()
                if (now := time.monotonic()) - reported >= _REPORT or not self._running:
                    reported = now
                    self._report()
        finally:
            for attempt in self._running.values():  # none, unless an exception is on its way
                attempt.break_off()
        return {name: self._results[name] for name in self._order}

    def _start_next(self) -> None:
        while self._waiting and len(self._running) < self._width and len(self._logging_in) < LOGINS:
            if time.monotonic() >= self._until:
                break
            self._start(self._waiting.popleft())

    def _start(self, host: Host) -> None:
        attempt = Attempt(host.name, on_login=lambda attempt: self._events.put((attempt, None)))
        self._running[host.name] = attempt
        self._logging_in.add(host.name)
        thread = threading.Thread(target=self._one_host, args=(host, attempt), name=f"host-{host.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads: the host has to wait until others have ended
            del self._running[host.name]
            self._logging_in.discard(host.name)
            if not self._running:
                raise
            self._width = len(self._running)
            self._waiting.appendleft(host)

    def _one_host(self, host: Host, attempt: Attempt) -> None:
        attempts.begin(attempt)
        future: Future[T] = Future()
        try:
            future.set_result(self._work(host))
        except BaseException as error:  # handled by the calling thread
            future.set_exception(error)
        self._events.put((attempt, future))

    def _take_events(self) -> None:
        """Take all logins and results so far; wait for one if there is none."""
        try:
            event = self._events.get(timeout=self._timeout())
            while True:
                self._take(*event)
                event = self._events.get_nowait()
        except queue.Empty:
            pass

    def _timeout(self) -> float:
        first = next(iter(self._running.values()), None)  # none if the time was over before the start
        seconds = first.seconds if first else self._deadline
        return max(0.0, min(_TICK, self._deadline - seconds, self._until - time.monotonic()))

    def _take(self, attempt: Attempt, future: Future[T] | None) -> None:
        name = attempt.host
        if self._running.get(name) is not attempt:
            return  # abandoned before
        self._logging_in.discard(name)
        if future is None:
            return
        del self._running[name]
        try:
            self._results[name] = future.result()
        except TransportError as error:
            self._fail(name, error)
        except BaseException as error:
            error.add_note(f"while working on host {name}")
            raise

    def _fail(self, name: str, error: TransportError) -> None:
        self._results[name] = error
        self._failed += 1

    def _abandon_overdue(self) -> None:
        if time.monotonic() >= self._until:
            self._end_all()
        while self._running:
            name, attempt = next(iter(self._running.items()))
            if attempt.seconds < self._deadline:
                return
            del self._running[name]
            self._logging_in.discard(name)
            self._fail(name, errors.abandoned(name, attempt.seconds, attempt.waiting_for))
            attempt.break_off()

    def _end_all(self) -> None:
        """Give up all hosts without a result, because the time of the whole run is over."""
        for name, attempt in self._running.items():
            self._fail(name, errors.budget_ended(name, attempt.waiting_for))
            attempt.break_off()
        for host in self._waiting:
            self._fail(host.name, errors.budget_ended(host.name, ""))
        self._running.clear()
        self._logging_in.clear()
        self._waiting.clear()

    def _report(self) -> None:
        if self._progress is None:
            return
        slowest = next(iter(self._running.values()), None)
        self._progress(
            Progress(
                done=len(self._results),
                total=len(self._order),
                failed=self._failed,
                slowest=slowest.host if slowest else None,
                seconds=slowest.seconds if slowest else 0.0,
                waiting_for=slowest.waiting_for if slowest else "",
                phase=self._phase,
            )
        )
