"""Receiver of a run's findings and progress as they come."""

from collections.abc import Sequence
from typing import Protocol

from preflight.model.finding import Finding
from preflight.transport.types import Progress


class RunStream(Protocol):
    """Receiver of what a run yields before its report. Both functions may be called from any thread."""

    def show_progress(self, progress: Progress) -> None:
        """Receive a progress report."""

    def show_findings(self, findings: Sequence[Finding]) -> None:
        """Receive the findings so far. Later calls repeat them, and add others."""
