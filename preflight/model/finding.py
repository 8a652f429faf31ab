"""Findings of checks."""

from collections.abc import Iterable
from dataclasses import dataclass

from preflight.model.change import Change
from preflight.model.measure import Culprit
from preflight.model.outcome import Outcome


@dataclass(frozen=True, slots=True)  # a check of 4,000 hosts has 650,000 of them
class Finding:
    """One check's result about one subject. `summary` has the subject and the observed values.

    `cause` is a guess. `remedy` is the first thing to do, `commands` what to type for it, each complete, and `retest`
    the command that shows the failure again.

    `host` is None for a finding about the cluster as a whole. `rail` is the device index shared by all hosts. `peer` is
    the other end ("node02" or "node02/3"). `culprit` is the object at fault by tests or pings.
    """

    check: str
    outcome: Outcome
    summary: str
    host: str | None = None
    device: int | None = None
    rail: int | None = None
    peer: str | None = None
    expected: str = ""
    found: str = ""
    cause: str = ""
    remedy: str = ""
    commands: tuple[str, ...] = ()
    retest: str = ""
    evidence: tuple[str, ...] = ()
    change: Change | None = None
    culprit: Culprit | None = None


def with_outcome(findings: Iterable[Finding], outcome: Outcome) -> list[Finding]:
    """Return the findings with this outcome, in their order."""
    return [finding for finding in findings if finding.outcome is outcome]
