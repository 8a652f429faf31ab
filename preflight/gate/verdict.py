"""Verdict of a report on one host, for the gate on it (docs/gate.md, verdict.json). Pure.

A host is taken out of service for findings about itself, or if tests identify it as the culprit. A finding that two
hosts, a rail or the whole cluster share is a warning for the hosts that it concerns. So is a failure for which tests
name all hosts, and a comparison without a majority. A host without an answer to the probe is unknown.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from preflight import __version__
from preflight.checks.engine.registry import ROUNDS
from preflight.facts.types import HostFacts, Versions
from preflight.gate.convicted import convicted, unheard
from preflight.model.finding import Finding, with_outcome
from preflight.model.measure import Culprit
from preflight.model.outcome import Outcome, overall, worst_by
from preflight.model.report import Report
from preflight.report.text import printable

MOST_PROBLEMS = 64
LONGEST = 300  # characters of a problem's sentence
_LONGEST_VERSION = 100
# Inputs of checks about what hosts observed of each other: there, only a culprit fails.
_BETWEEN_HOSTS = frozenset({*ROUNDS, "arrivals", "neighbours"})
_PROBING = frozenset({"rehearsal", "observations", "hccl_test"})  # inputs of the probe's checks
_VERSIONS = ("driver", "firmware", "cann", "torch", "torch_npu", "python")


@dataclass(frozen=True)
class Problem:
    check: str
    outcome: Outcome
    device: int | None
    summary: str


@dataclass(frozen=True)
class Look:
    """Results of a run for one host; time, expiry and the host's state are added there, by its own clock."""

    run: str
    preflight: str
    outcome: Outcome
    checks: Mapping[str, Outcome]  # id → the worst outcome, for each check that ran
    problems: tuple[Problem, ...]  # the worst first
    versions: Mapping[str, str]


def looks_of(
    report: Report,
    hosts: Sequence[str],
    needs: Mapping[str, Collection[str]],
    versions: Mapping[str, Mapping[str, str]],
) -> dict[str, dict[str, Look]]:
    """Return for each host the results of the report, as "check" and "probe".

    Parts that were not inspected are missing, so that an earlier look keeps counting. That is the probe's part of a
    check that did not probe, and a host that the probe left out without naming it as the culprit.

    `needs`: check → its inputs, of all checks. `versions`: host → the versions at its inspection.
    """
    left_out = {host.host for host in report.left_out}
    shared = {*_of_all(report.findings, set(hosts) - left_out), *_undecided(report.findings, needs)}
    looks: dict[str, dict[str, Look]] = {}
    for host, findings in _by_host(hosts, report.findings).items():
        concerned = _Concerned(host, needs, shared)
        looks[host] = {}
        for name, part in _parts(findings, needs).items():
            if name == "check" and report.command != "check":
                continue
            look = _look(report.run, concerned, part, versions.get(host, {}))
            if look and not (name == "probe" and host in left_out and look.outcome is not Outcome.FAIL):
                looks[host][name] = look
    return looks


def _by_host(hosts: Sequence[str], findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Return each host → the findings about it, about hosts together with it, and about all hosts."""
    about: dict[str, list[Finding]] = {host: [] for host in hosts}
    for finding in findings:
        culprits = finding.culprit.hosts if finding.culprit else ()
        for host in hosts if finding.host is None else {finding.host, *culprits}:
            about.get(host, []).append(finding)
    return about


def _parts(findings: Iterable[Finding], needs: Mapping[str, Collection[str]]) -> dict[str, list[Finding]]:
    """Return the findings of the checks of facts as "check", and those of the probe as "probe"."""
    parts: dict[str, list[Finding]] = {"check": [], "probe": []}
    for finding in findings:
        parts["check" if _PROBING.isdisjoint(needs[finding.check]) else "probe"].append(finding)
    return parts


def versions_of(facts: HostFacts) -> dict[str, str]:
    """Return the versions at an inspection, as far as they are known."""
    section = facts.versions
    if not isinstance(section, Versions):
        return {}
    values = {name: getattr(section, name) for name in _VERSIONS}
    return {name: printable(version)[:_LONGEST_VERSION] for name, version in values.items() if version}


@dataclass(frozen=True)
class _Concerned:
    """A host, as a report's findings concern it. `needs`: check → its inputs. `shared`: failures of no single host."""

    host: str
    needs: Mapping[str, Collection[str]]
    shared: AbstractSet[Finding]

    def outcome(self, finding: Finding) -> Outcome | None:
        """Return a finding's outcome for the host, None if it does not concern the host."""
        if finding.outcome is Outcome.FAIL and finding.culprit:
            return self._of_culprit(finding, finding.culprit)
        about_all = finding.host is None
        if not about_all and finding.host != self.host:
            return None
        if finding.outcome is Outcome.FAIL:
            between_hosts = not _BETWEEN_HOSTS.isdisjoint(self.needs[finding.check])
            return Outcome.WARN if about_all or between_hosts or finding in self.shared else Outcome.FAIL
        return Outcome.WARN if finding.outcome is Outcome.UNKNOWN and about_all else finding.outcome

    def _of_culprit(self, finding: Finding, culprit: Culprit) -> Outcome | None:
        """Return the outcome of a failure with a culprit."""
        if self.host in unheard(finding):
            return Outcome.UNKNOWN
        if self.host in culprit.hosts:
            return Outcome.FAIL if self.host in _at_fault(finding) and finding not in self.shared else Outcome.WARN
        if finding.host == self.host or not culprit.hosts:
            return Outcome.WARN
        return Outcome.PASS if finding.host is None else None  # it concerns other hosts


def _look(run: str, concerned: _Concerned, findings: Iterable[Finding], versions: Mapping[str, str]) -> Look | None:
    """Return the look of one part, None if nothing was inspected."""
    outcomes: list[tuple[str, Outcome]] = []
    problems: list[Problem] = []
    for finding in findings:
        outcome = concerned.outcome(finding)
        if outcome is None:
            continue
        outcomes.append((finding.check, outcome))
        if outcome not in (Outcome.PASS, Outcome.SKIP):
            summary = printable(finding.summary)[:LONGEST]
            problems += (
                Problem(finding.check, outcome, device, summary) for device in _devices(concerned.host, finding)
            )
    checks = worst_by(outcomes)
    outcome = overall(checks.values())
    if not checks or outcome is Outcome.SKIP:
        return None
    worst_first = tuple(Outcome)
    problems.sort(key=lambda problem: worst_first.index(problem.outcome))  # stable: else in the report's order
    return Look(run, __version__, outcome, checks, tuple(problems[:MOST_PROBLEMS]), versions)


def _of_all(findings: Collection[Finding], tested: AbstractSet[str]) -> Iterator[Finding]:
    """Yield failures for which a check names all hosts, and more than one.

    A wrong setup line, or a device that the probe's user may not open, is no host's fault. `tested`: without the hosts
    that were left out.
    """
    by_check: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if _at_fault(finding):
            by_check[finding.check].append(finding)
    answering = tested - {host for finding in findings for host in unheard(finding)}
    for failures in by_check.values():
        named = {host for finding in failures for host in _at_fault(finding)}
        if len(named) > 1 and named >= answering:
            yield from failures


def _undecided(findings: Collection[Finding], needs: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """Yield failures of comparisons without a majority (checks/shared/majority.py).

    There, a host differs from a peer that differs, too, and no host passes.
    """
    passed = {finding.check for finding in with_outcome(findings, Outcome.PASS)}
    differing = [
        finding
        for finding in with_outcome(findings, Outcome.FAIL)
        if finding.host and finding.peer and not finding.culprit
        if finding.check not in passed and _BETWEEN_HOSTS.isdisjoint(needs[finding.check])
    ]
    hosts = {(finding.check, finding.host) for finding in differing}
    yield from (finding for finding in differing if (finding.check, finding.peer) in hosts)


def _at_fault(finding: Finding) -> AbstractSet[str]:
    """Return the hosts that tests name as culprits; a link within a host is the host's."""
    culprit = finding.culprit
    within = finding.outcome is Outcome.FAIL and culprit and culprit.kind == "link" and len(culprit.hosts) == 1
    return culprit.hosts if culprit and within else convicted(finding)


def _devices(host: str, finding: Finding) -> Iterator[int | None]:
    """Yield the host's devices that a finding is about; None: the host as a whole."""
    if finding.culprit and finding.culprit.kind == "device":
        members = (member.partition("/") for member in finding.culprit.members)
        own = [int(device) for name, _, device in members if name == host and device.isdecimal()]
        yield from own
        if not own:
            yield None
    else:
        yield finding.device if finding.host == host else None
