"""Phases of a run with their times, from its progress reports."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from preflight.model.report import Phase
from preflight.transport.types import Progress

_GAP = 5.0  # seconds after a phase's end, from which on its name begins another phase


@dataclass
class _Open:
    name: str
    begin: datetime
    end: datetime
    total: int = 0
    failed: int = 0
    longest: str = ""
    waited: float = 0.0
    over: bool = False  # all hosts are done


class Timeline:
    """Phases of a run. Thread-safe, since phases may overlap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phases: list[_Open] = []

    def take(self, progress: Progress, now: datetime | None = None) -> None:
        """Record a progress report. `now` is in UTC."""
        if not progress.phase:
            return
        now = now or datetime.now(UTC)
        with self._lock:
            phase = next((candidate for candidate in reversed(self._phases) if candidate.name == progress.phase), None)
            if phase is None or (phase.over and (now - phase.end).total_seconds() > _GAP):
                phase = _Open(progress.phase, now, now)
                self._phases.append(phase)
            phase.end, phase.total, phase.failed = now, progress.total, progress.failed
            phase.over = progress.done >= progress.total
            if progress.slowest and progress.seconds > phase.waited:
                phase.longest, phase.waited = progress.slowest, progress.seconds

    def phases(self, started: datetime) -> tuple[Phase, ...]:
        """Return the phases in the order of their beginnings. `started` is the run's start, with a time zone."""
        with self._lock:
            return tuple(
                Phase(
                    phase.name.removesuffix(", tests"),
                    _seconds(started, phase.begin),
                    _seconds(phase.begin, phase.end),
                    phase.total,
                    phase.failed,
                    phase.longest,
                    round(phase.waited, 1),
                )
                for phase in sorted(self._phases, key=lambda phase: phase.begin)
            )


def _seconds(begin: datetime, end: datetime) -> float:
    return round(max(0.0, (end - begin).total_seconds()), 3)
