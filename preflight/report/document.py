"""The Report as JSON: schema `preflight.report/1` of docs/contracts.md."""

from typing import Any

from preflight.model.outcome import Outcome
from preflight.model.report import SCHEMA, Report

_QUIET = (Outcome.PASS, Outcome.SKIP)


def document(report: Report, exit_code: int, *, everything: bool = False) -> str:
    """Return the JSON text. `findings` leaves out passes and skips unless `everything` is set."""
    import msgspec

    shown = [finding for finding in report.findings if everything or finding.outcome not in _QUIET]
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "run": report.run,
        "command": report.command,
        "started": report.started,
        "finished": report.finished,
        "verdict": report.verdict.value,
        "exit": exit_code,
        "hosts": report.hosts,
        "checks": report.looked,
        "findings": shown,
        "tests": report.tests,
        "culprits": report.culprits,
        "left_out": report.left_out,
        "notes": report.notes,
        "phases": report.phases,
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
