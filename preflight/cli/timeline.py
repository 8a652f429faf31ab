"""When a run did what, from the progress that it reports anyway."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from preflight.model.report import Phase
from preflight.transport.types import Progress

_GAP = 5.0  # seconds after the end of a phase, from which on its name begins another one


@dataclass
class _Open:
    name: str
    begin: datetime
    end: datetime
    total: int = 0
    failed: int = 0
    longest: str = ""
    waited: float = 0.0
    over: bool = False  # everything was done


class Timeline:
    """Thread-safe: phases may pass beside each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phases: list[_Open] = []

    def take(self, progress: Progress, now: datetime | None = None) -> None:
        """`now`: in UTC."""
        if not progress.phase:
            return
        now = now or datetime.now(UTC)
        with self._lock:
            one = next((it for it in reversed(self._phases) if it.name == progress.phase), None)
            if one is None or (one.over and (now - one.end).total_seconds() > _GAP):
                one = _Open(progress.phase, now, now)
                self._phases.append(one)
            one.end, one.total, one.failed = now, progress.total, progress.failed
            one.over = progress.done >= progress.total
            if progress.slowest and progress.seconds > one.waited:
                one.longest, one.waited = progress.slowest, progress.seconds

    def phases(self, started: datetime) -> tuple[Phase, ...]:
        """In the order in which they began; `started`: of the run, aware."""
        with self._lock:
            return tuple(
                Phase(
                    one.name.removesuffix(", tests"),
                    _seconds(started, one.begin),
                    _seconds(one.begin, one.end),
                    one.total,
                    one.failed,
                    one.longest,
                    round(one.waited, 1),
                )
                for one in sorted(self._phases, key=lambda one: one.begin)
            )


def _seconds(begin: datetime, end: datetime) -> float:
    return round(max(0.0, (end - begin).total_seconds()), 3)
