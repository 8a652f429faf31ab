"""The form jsonl: one JSON object a line, with findings and progress as they come (docs/contracts.md)."""

import argparse
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from preflight.app.end import EndedRun
from preflight.cli.pipe import silence_stdout
from preflight.cli.report_options import outputs
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.transport.types import Progress

SCHEMA = "preflight.stream/1"
_QUIET = (Outcome.PASS, Outcome.SKIP)  # outcomes that may still change before the run ends

_PROGRESS = ("phase", "done", "total", "failed", "slowest", "seconds", "waiting_for")


class JsonLines:
    """Writer of the lines. Each finding is written once."""

    def __init__(self, command: str) -> None:
        self._lock = threading.Lock()
        self._written: set[tuple[object, ...]] = set()
        self._progress: dict[str, tuple[int, int]] = {}  # by phase, since two may run at the same time
        self._write("start", {"schema": SCHEMA, "command": command})

    def show_progress(self, progress: Progress) -> None:
        """Write a progress report in which more work of its phase is done than in the one before."""
        state = progress.done, progress.failed
        with self._lock:
            changed = state != self._progress.get(progress.phase)
            self._progress[progress.phase] = state
        if progress.phase and changed:
            self._write("progress", {"progress": {name: getattr(progress, name) for name in _PROGRESS}})

    def show_findings(self, findings: Sequence[Finding], *, everything: bool = False) -> None:
        """Write the findings that were not written before. Passes and skips are written with `everything`."""
        for finding in findings:
            if everything or finding.outcome not in _QUIET:
                self._write_once(finding)

    def _write_once(self, finding: Finding) -> None:
        key = (
            finding.check,
            finding.outcome,
            finding.host,
            finding.device,
            finding.rail,
            finding.peer,
            finding.summary,
        )
        with self._lock:
            is_new = key not in self._written
            self._written.add(key)
        if is_new:
            self._write("finding", {"finding": finding})

    def end(self, ended: EndedRun, *, everything: bool) -> None:
        """Write the remaining findings, and the summary of the report as the last line."""
        report = ended.report
        self.show_findings(report.findings, everything=everything)
        summary = {
            "run": report.run,
            "command": report.command,
            "started": report.started,
            "finished": report.finished,
            "verdict": report.verdict.value,
            "exit": ended.exit_code,
            "hosts": report.hosts,
            "culprits": report.culprits,
            "left_out": report.left_out,
            "notes": report.notes,
            "next": ended.next_step,
        }
        self._write("summary", {"summary": summary})

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        line = msgspec.json.encode({"kind": kind, **fields}).decode()
        with self._lock:
            try:
                print(line, flush=True)
            except BrokenPipeError:  # the run goes on, for its files and its exit code
                silence_stdout()


def stream_of(args: argparse.Namespace) -> JsonLines | None:
    """Return the writer for stdout if the requested form is jsonl."""
    return JsonLines(args.command) if outputs(args)[0].format == "jsonl" else None
