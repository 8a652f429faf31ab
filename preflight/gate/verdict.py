"""What a report says of one host, for the gate on it (docs/gate.md, verdict.json). Pure.

A host is taken out of service for what was seen on it, or where tests convict it. What two hosts, a rail or the whole
cluster have together is written down as a warning on those whom it concerns; so is what tests convict all of, and a
comparison in which nobody is right. A host that the probe heard nothing of is unknown.
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
# Inputs of checks that are about what hosts saw of each other: there only a culprit is convicted.
_BETWEEN_HOSTS = frozenset({*ROUNDS, "arrivals", "neighbours"})
_PROBING = frozenset({"rehearsal", "observations", "hccl_test"})  # inputs that make a check one of the probe's
_VERSIONS = ("driver", "firmware", "cann", "torch", "torch_npu", "python")


@dataclass(frozen=True)
class Problem:
    check: str
    outcome: Outcome
    device: int | None
    summary: str


@dataclass(frozen=True)
class Look:
    """What a run found on one host; time, expiry and the host's state are added there, by its own clock."""

    run: str
    preflight: str
    outcome: Outcome
    checks: Mapping[str, Outcome]  # id → the worst outcome, of each check that ran
    problems: tuple[Problem, ...]  # the worst first
    versions: Mapping[str, str]


def looks_of(
    report: Report,
    hosts: Sequence[str],
    needs: Mapping[str, Collection[str]],
    versions: Mapping[str, Mapping[str, str]],
) -> dict[str, dict[str, Look]]:
    """Host → what the report says of it, as "check" and "probe". What was not looked at is not there: an earlier look
    keeps counting then, for the probe's part of a check that did not probe, and for a host that the probe left out
    without convicting it.

    `needs`: check → its inputs, of all checks; `versions`: host → those that it was looked at with.
    """
    about: dict[str, list[Finding]] = {host: [] for host in hosts}
    for finding in report.findings:
        named = finding.culprit.hosts if finding.culprit else ()
        for host in hosts if finding.host is None else {finding.host, *named}:
            about.get(host, []).append(finding)
    probing = {check for check, inputs in needs.items() if not _PROBING.isdisjoint(inputs)}
    left_out = {left.host for left in report.left_out}
    shared = {*_of_all(report.findings, set(hosts) - left_out), *_undecided(report.findings, needs)}
    looks: dict[str, dict[str, Look]] = {}
    for host, findings in about.items():
        parts: dict[str, list[Finding]] = {"check": [], "probe": []}
        for finding in findings:
            parts["probe" if finding.check in probing else "check"].append(finding)
        if report.command != "check":
            del parts["check"]
        own = versions.get(host, {})
        found = {name: _look(report.run, host, part, needs, own, shared) for name, part in parts.items()}
        looks[host] = {name: look for name, look in found.items() if look}
        if host in left_out and "probe" in looks[host] and looks[host]["probe"].outcome is not Outcome.FAIL:
            del looks[host]["probe"]
    return looks


def versions_of(facts: HostFacts) -> dict[str, str]:
    """What a look was taken with, as far as it is known."""
    found = facts.versions
    if not isinstance(found, Versions):
        return {}
    told = {name: getattr(found, name) for name in _VERSIONS}
    return {name: printable(version)[:_LONGEST_VERSION] for name, version in told.items() if version}


def _look(
    run: str,
    host: str,
    findings: Collection[Finding],
    needs: Mapping[str, Collection[str]],
    versions: Mapping[str, str],
    shared: AbstractSet[Finding],
) -> Look | None:
    """None where nothing was looked at."""
    said: list[tuple[str, Outcome]] = []
    problems: list[Problem] = []
    for finding in findings:
        outcome = _said_of(host, finding, needs[finding.check], shared=finding in shared)
        if outcome is None:
            continue
        said.append((finding.check, outcome))
        if outcome not in (Outcome.PASS, Outcome.SKIP):
            summary = printable(finding.summary)[:LONGEST]
            problems += (Problem(finding.check, outcome, device, summary) for device in _devices(host, finding))
    checks = worst_by(said)
    outcome = overall(checks.values())
    if not checks or outcome is Outcome.SKIP:
        return None
    worst_first = tuple(Outcome)
    problems.sort(key=lambda one: worst_first.index(one.outcome))  # stable: else in the report's order
    return Look(run, __version__, outcome, checks, tuple(problems[:MOST_PROBLEMS]), versions)


def _of_all(findings: Collection[Finding], tested: AbstractSet[str]) -> Iterator[Finding]:
    """What a check convicts all hosts of, and more than one: a wrong setup line, or a device that the probe's user may
    not open, is no host's fault. `tested`: without those that were left out."""
    convicting: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if _at_fault(finding):
            convicting[finding.check].append(finding)
    heard = tested - {host for finding in findings for host in unheard(finding)}
    for same in convicting.values():
        named = {host for finding in same for host in _at_fault(finding)}
        if len(named) > 1 and named >= heard:
            yield from same


def _undecided(findings: Collection[Finding], needs: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """What comparing hosts found where there was no majority (checks/shared/majority.py): a host is told to differ from
    one that is told to differ, too, and nobody passes."""
    passed = {finding.check for finding in findings if finding.outcome is Outcome.PASS}
    odd = [
        one
        for one in findings
        if one.outcome is Outcome.FAIL and one.host and one.peer and not one.culprit
        if one.check not in passed and _BETWEEN_HOSTS.isdisjoint(needs[one.check])
    ]
    hosts = {(one.check, one.host) for one in odd}
    return (one for one in odd if (one.check, one.peer) in hosts)


def _at_fault(finding: Finding) -> AbstractSet[str]:
    """Whom tests convict; a link within a host is its own."""
    culprit = finding.culprit
    within = finding.outcome is Outcome.FAIL and culprit and culprit.kind == "link" and len(culprit.hosts) == 1
    return culprit.hosts if culprit and within else convicted(finding)


def _said_of(host: str, finding: Finding, needs: Collection[str], *, shared: bool) -> Outcome | None:
    """What a finding says of the host, None where that is nothing. `shared`: a failure is no single host's."""
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
        return Outcome.PASS if about_all else None  # it is others' trouble
    if not concerned:
        return None
    if finding.outcome is Outcome.FAIL:
        together = about_all or shared or not _BETWEEN_HOSTS.isdisjoint(needs)
        return Outcome.WARN if together else Outcome.FAIL
    return Outcome.WARN if finding.outcome is Outcome.UNKNOWN and about_all else finding.outcome


def _devices(host: str, finding: Finding) -> Iterator[int | None]:
    """The host's devices that a finding is about; None: the host as a whole."""
    if finding.culprit and finding.culprit.kind == "device":
        members = (member.partition("/") for member in finding.culprit.members)
        own = [int(device) for name, _, device in members if name == host and device.isdecimal()]
        yield from own
        if not own:
            yield None
    else:
        yield finding.device if finding.host == host else None
