"""The report that every output renders (docs/contracts.md, `preflight.report/1`)."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from preflight.model.finding import Finding
from preflight.model.measure import Culprit, TestResult
from preflight.model.outcome import Outcome, overall

SCHEMA = "preflight.report/1"


@dataclass(frozen=True)
class HostLine:
    name: str
    verdict: Outcome
    checks: dict[str, int]  # outcome → number of checks, each with its worst outcome on this host


@dataclass(frozen=True)
class LeftOut:
    host: str
    why: str


@dataclass(frozen=True)
class Phase:
    """A part of the run that waits for hosts.

    `begin` is in seconds after the run's start. `total` counts hosts, or tests of a probe round, of which `failed`
    could not be reached. `longest` is the host or device ("node01/3") with the longest wait, of `waited`
    seconds, "" if none.
    """

    name: str  # "facts", "pings", "probe round 2, 16 ranks" …
    begin: float
    seconds: float
    total: int = 0
    failed: int = 0
    longest: str = ""
    waited: float = 0.0


@dataclass(frozen=True)
class Report:
    """One run's result. `findings` has passes and skips, too; renderers show those only on request."""

    run: str
    command: str
    started: str  # ISO 8601, UTC, ends in Z
    finished: str
    hosts: tuple[HostLine, ...]
    findings: tuple[Finding, ...]
    tests: tuple[TestResult, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    left_out: tuple[LeftOut, ...] = ()  # hosts or parts that were left out unasked
    notes: tuple[str, ...] = ()  # remarks: --limit, --ignore, a probe that was left out
    phases: tuple[Phase, ...] = ()  # in the order of their beginning; some run side by side

    @property
    def verdict(self) -> Outcome:
        """The worst outcome. A run that left hosts out unasked, or skipped everything, is `unknown`."""
        verdict = overall(finding.outcome for finding in self.findings)
        incomplete = verdict is Outcome.SKIP or (self.left_out and verdict is not Outcome.FAIL)
        return Outcome.UNKNOWN if incomplete else verdict

    @property
    def looked(self) -> dict[str, tuple[str, ...]]:
        """The ids of the checks that ran on any host, whatever their outcome, and the hosts that each skipped."""
        ran: dict[str, dict[str | None, bool]] = defaultdict(dict)  # check → host → not skipped
        for finding in self.findings:
            hosts = ran[finding.check]
            hosts[finding.host] = hosts.get(finding.host, False) or finding.outcome is not Outcome.SKIP
        return {
            check: tuple(host for host, not_skipped in hosts.items() if host and not not_skipped)
            for check, hosts in sorted(ran.items())
            if any(hosts.values())
        }

    @property
    def seconds(self) -> float:
        """The run's duration."""
        return (datetime.fromisoformat(self.finished) - datetime.fromisoformat(self.started)).total_seconds()

    def exit_code(self, fail_on: Outcome = Outcome.FAIL) -> int:
        """Return 1 for a failure (with `fail_on` WARN also for a warning), 3 if something is unknown, else 0."""
        outcomes = {finding.outcome for finding in self.findings}
        if Outcome.FAIL in outcomes or (fail_on is Outcome.WARN and Outcome.WARN in outcomes):
            return 1
        return 3 if self.verdict is Outcome.UNKNOWN else 0
