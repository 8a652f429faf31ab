"""Verdict of a report on one host, for the gate on it (docs/gate.md, verdict.json). Pure.

A host is taken out of service for findings about itself, or if tests identify it as the culprit. A finding that two
hosts, a rail or the whole cluster share is a warning for the hosts that it concerns. So is a failure for which tests
name all hosts, and a comparison without a majority. A host without an answer to the probe is unknown.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from preflight import __version__
from preflight.checks.engine.registry import ROUNDS
from preflight.facts.types import HostFacts, Versions
from preflight.gate.convicted import convicted, unheard
from preflight.model.finding import Finding
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
    about: dict[str, list[Finding]] = {host: [] for host in hosts}
    for finding in report.findings:
        named = finding.culprit.hosts if finding.culprit else ()
        for host in hosts if finding.host is None else {finding.host, *named}:
            about.get(host, []).append(finding)
    probing = {check for check, inputs in needs.items() if not _PROBING.isdisjoint(inputs)}
    left_out = {host.host for host in report.left_out}
    shared = {*_of_all(report.findings, set(hosts) - left_out), *_undecided(report.findings, needs)}
    looks: dict[str, dict[str, Look]] = {}
    for host, findings in about.items():
        parts: dict[str, list[Finding]] = {"check": [], "probe": []}
        for finding in findings:
            parts["probe" if finding.check in probing else "check"].append(finding)
        if report.command != "check":
            del parts["check"]
        own = versions.get(host, {})
        part_looks = {name: _look(report.run, host, part, needs, own, shared) for name, part in parts.items()}
        looks[host] = {name: look for name, look in part_looks.items() if look}
        if host in left_out and "probe" in looks[host] and looks[host]["probe"].outcome is not Outcome.FAIL:
            del looks[host]["probe"]
    return looks


def versions_of(facts: HostFacts) -> dict[str, str]:
    """Return the versions at an inspection, as far as they are known."""
    section = facts.versions
    if not isinstance(section, Versions):
        return {}
    values = {name: getattr(section, name) for name in _VERSIONS}
    return {name: printable(version)[:_LONGEST_VERSION] for name, version in values.items() if version}


def _look(
    run: str,
    host: str,
    findings: Collection[Finding],
    needs: Mapping[str, Collection[str]],
    versions: Mapping[str, str],
    shared: AbstractSet[Finding],
) -> Look | None:
    """Return the look of one part, None if nothing was inspected."""
    outcomes: list[tuple[str, Outcome]] = []
    problems: list[Problem] = []
    for finding in findings:
        outcome = _said_of(host, finding, needs[finding.check], shared=finding in shared)
        if outcome is None:
            continue
        outcomes.append((finding.check, outcome))
        if outcome not in (Outcome.PASS, Outcome.SKIP):
            summary = printable(finding.summary)[:LONGEST]
            problems += (Problem(finding.check, outcome, device, summary) for device in _devices(host, finding))
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
    passed = {finding.check for finding in findings if finding.outcome is Outcome.PASS}
    differing = [
        finding
        for finding in findings
        if finding.outcome is Outcome.FAIL and finding.host and finding.peer and not finding.culprit
        if finding.check not in passed and _BETWEEN_HOSTS.isdisjoint(needs[finding.check])
    ]
    hosts = {(finding.check, finding.host) for finding in differing}
    return (finding for finding in differing if (finding.check, finding.peer) in hosts)


def _at_fault(finding: Finding) -> AbstractSet[str]:
    """Return the hosts that tests name as culprits; a link within a host is the host's."""
    culprit = finding.culprit
    within = finding.outcome is Outcome.FAIL and culprit and culprit.kind == "link" and len(culprit.hosts) == 1
    return culprit.hosts if culprit and within else convicted(finding)


def _said_of(host: str, finding: Finding, needs: Collection[str], *, shared: bool) -> Outcome | None:
    """Return a finding's outcome for the host, None if it does not concern the host.

    `shared`: a failure is no single host's.
    """
    about_all = finding.host is None
    concerned = about_all or finding.host == host
    if finding.outcome is Outcome.FAIL and finding.culprit:
        named = finding.culprit.hosts
        if host in unheard(finding):
            return Outcome.UNKNOWN
        if host in named:
            return Outcome.FAIL if host in _at_fault(finding) and not shared else Outcome.WARN
        if finding.host == host or not named:
            return Outcome.WARN
        return Outcome.PASS if about_all else None  # it concerns other hosts
    if not concerned:
        return None
    if finding.outcome is Outcome.FAIL:
        together = about_all or shared or not _BETWEEN_HOSTS.isdisjoint(needs)
        return Outcome.WARN if together else Outcome.FAIL
    return Outcome.WARN if finding.outcome is Outcome.UNKNOWN and about_all else finding.outcome


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
