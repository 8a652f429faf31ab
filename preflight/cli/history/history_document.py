"""Runs as JSON: schema `preflight.history/1` of docs/contracts.md."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from preflight.history.runs import CheckRun
from preflight.model.figures import Figure
from preflight.model.finding import Finding
from preflight.provision.journal import PastRun


def document(runs: Iterable[PastRun | CheckRun], *, whole: bool) -> str:
    """Return the JSON text. `whole` adds the findings and figures of check and probe."""
    listed = [_look(past, whole) if isinstance(past, CheckRun) else _changes(past) for past in runs]
    return msgspec.json.format(
        msgspec.json.encode({"schema": "preflight.history/1", "runs": listed}), indent=2
    ).decode()


def _changes(past: PastRun) -> dict[str, Any]:
    return {
        "run": past.run,
        "command": past.command,
        "started": past.started,
        "owner": past.owner,
        "inventory": past.inventory,
        "undoes": past.undoes,
        "hosts": past.hosts,
        "begun": past.begun,
        "changes": len(past.changes),
        "states": past.states,
        "not_begun": past.not_begun,
        "unknown": past.unheard,
        "exit": past.exit,
        "finished": None,
        "verdict": None,
        "cluster": None,
        "backend": None,
        "asked": "",
        "outcomes": {},
    }


def _look(past: CheckRun, whole: bool) -> dict[str, Any]:
    lists = {"findings": list(map(_finding, past.findings)), "figures": list(map(figure_row, past.figures))}
    return {
        "run": past.run,
        "command": past.command,
        "started": past.started,
        "owner": past.owner,
        "inventory": past.inventory,
        "undoes": "",
        "hosts": past.hosts,
        "begun": (),
        "changes": 0,
        "states": {},
        "not_begun": 0,
        "unknown": 0,
        "exit": past.exit,
        "finished": past.finished,
        "verdict": past.verdict,
        "cluster": past.setting.cluster,
        "backend": past.setting.backend,
        "asked": past.asked,
        "outcomes": dict(Counter(finding.outcome.value for finding in past.findings)),
        **(lists if whole else {}),
    }


def figure_row(figure: Figure) -> dict[str, Any]:
    return {**msgspec.to_builtins(figure.shape), "busbw_GBps": figure.busbw, "seconds": figure.seconds}


def _finding(finding: Finding) -> dict[str, Any]:
    """Return the finding as in the report, without the fields that the history does not keep."""
    return {
        "check": finding.check,
        "outcome": finding.outcome,
        "host": finding.host,
        "device": finding.device,
        "rail": finding.rail,
        "peer": finding.peer,
        "summary": finding.summary,
        "expected": finding.expected,
        "found": finding.found,
        "cause": finding.cause,
        "remedy": finding.remedy,
        "commands": finding.commands,
    }
