"""The one report that every output renders (docs/contracts.md, `preflight.report/1`)."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from preflight.model.finding import Finding
from preflight.model.measure import Culprit, TestResult
from preflight.model.outcome import Outcome, overall

SCHEMA = "preflight.report/1"


@dataclass(frozen=True)
class HostLine:
    name: str
    verdict: Outcome
    checks: dict[str, int]  # outcome → number of checks (the worst outcome of a check on this host counts)


@dataclass(frozen=True)
class LeftOut:
    host: str
    why: str


@dataclass(frozen=True)
class Phase:
    """A part of the run that waits for hosts. `begin`: seconds after the run's start. `total`: hosts, or tests of a
    round of the probe, of which `failed` could not be reached; `longest`: the host or device ("node01/3") that was
    waited for longest, for `waited` seconds; empty where none was."""

    name: str  # "facts", "pings", "probe round 2, 16 ranks" …
    begin: float
    seconds: float
    total: int = 0
    failed: int = 0
    longest: str = ""
    waited: float = 0.0


@dataclass(frozen=True)
class Report:
    """`findings` holds every finding, passes and skips too; renderers leave those out unless asked."""

    run: str
    command: str
    started: str  # ISO 8601, UTC, ends in Z
    finished: str
    hosts: tuple[HostLine, ...]
    findings: tuple[Finding, ...]
    tests: tuple[TestResult, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    left_out: tuple[LeftOut, ...] = ()  # hosts or parts that were not looked at, unasked
    notes: tuple[str, ...] = field(default=())  # what was asked for: --limit, --ignore, a probe that was left out
    phases: tuple[Phase, ...] = ()  # in the order in which they began; some pass beside each other

    @property
    def verdict(self) -> Outcome:
        """The worst outcome, never `skip`: a run that left hosts out unasked, or skipped everything, is `unknown`."""
        verdict = overall(finding.outcome for finding in self.findings)
        blind = verdict is Outcome.SKIP or (self.left_out and verdict is not Outcome.FAIL)
        return Outcome.UNKNOWN if blind else verdict

    @property
    def looked(self) -> dict[str, tuple[str, ...]]:
        """The ids of the checks that looked anywhere, whatever they found, and the hosts that each skipped."""
        said: dict[str, dict[str | None, bool]] = defaultdict(dict)
        for it in self.findings:
            said[it.check][it.host] = said[it.check].get(it.host, False) or it.outcome is not Outcome.SKIP
        return {
            check: tuple(host for host, looked in hosts.items() if host and not looked)
            for check, hosts in sorted(said.items())
            if any(hosts.values())
        }

    @property
    def seconds(self) -> float:
        """What the run took."""
        return (datetime.fromisoformat(self.finished) - datetime.fromisoformat(self.started)).total_seconds()

    def exit_code(self, fail_on: Outcome = Outcome.FAIL) -> int:
        """1 something failed (or, with `fail_on` WARN, warned), 3 something could not be looked at, else 0."""
        outcomes = {finding.outcome for finding in self.findings}
        if Outcome.FAIL in outcomes or (fail_on is Outcome.WARN and Outcome.WARN in outcomes):
            return 1
        return 3 if self.verdict is Outcome.UNKNOWN else 0
