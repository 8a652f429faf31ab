"""Findings about culprits, in the words that PRB101, PRB102, PRB103 and PRB113 share."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from preflight.attribution.causes import FailureMode, LocatedFailure, Why, why
from preflight.attribution.culprit_words import (
    SHOWN,
    Named,
    by_id,
    evidence,
    failed_tests,
    folded,
    hosts_of,
    partners,
    sentence,
)
from preflight.checks.engine.registry import All, Subject
from preflight.model.finding import Finding
from preflight.model.measure import STAGES, Culprit, Located, Observation, Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome

_MODES = {TestOutcome.SLOW: FailureMode.SLOW, TestOutcome.WRONG_DATA: FailureMode.WRONG}
_WHOLE_GROUPS = {"rail": Scope.RAIL, "scale": Scope.ALL}  # kinds of culprits that fail only as a whole
_ALONE = STAGES[: STAGES.index("device")]  # stages in which a device needs no other rank


@dataclass(frozen=True)
class ProbeResults:
    """Observations of a probe, and the findings about facts that may explain its failures."""

    scribe: All
    observations: Sequence[Observation]
    causes: Sequence[Finding] | None  # None: not collected

    @cached_property
    def tests(self) -> dict[str, TestResult]:
        return by_id(self.observations)

    def backend(self, fault: Located) -> str:
        """Return the backend over which the ranks of the fault's tests met, else the configured one."""
        backends = (
            observation.meeting.backend
            for observation in self.observations
            if observation.test.id in fault.tests and observation.meeting
        )
        return next(backends, self.scribe.cluster.probe.backend)


@dataclass(frozen=True)
class Symptom:
    """A failure in words, as tests alone show it.

    `trouble`: the class of cause, for programs. `cause`: the usual one, in a sentence. `alone`: the object failed
    without a partner. An empty `summary` is that of the kind of culprit."""

    trouble: str
    summary: str = ""
    cause: str = ""
    remedy: str = ""
    commands: tuple[str, ...] = ()
    expected: str = ""
    found: str = ""
    details: Sequence[str] = ()
    alone: bool = False


def unproven(kind: str, members: Iterable[str], failures: Iterable[Observation], outcome: TestOutcome) -> Named:
    """Return an object that failed as a whole, without proof which member is at fault."""
    return Named(Located(kind, tuple(members), tuple(by_id(failures)), outcome), proven=False)


def culprit_finding(results: ProbeResults, culprit: Named, symptom: Symptom, outcome: Outcome | None = None) -> Finding:
    """Return the one finding about an object that tests identify, with the explanation from the facts.

    The finding is a skip if another finding of the probe explains it. Without `outcome` it is a failure, or a warning
    for an object that fails intermittently for no known reason."""
    scribe, fault, subject = results.scribe, culprit.one, _subject(culprit)
    explanation = _explanation(results, fault, alone=symptom.alone)
    summary = symptom.summary or sentence(culprit)
    if _is_reported(culprit, explanation):
        return scribe.skip(f"{summary}. Another finding explains this: {explanation.words}", host=subject.get("host"))
    outcome = outcome or _outcome(culprit, explanation)
    retest = command(scribe, *_smallest_group(culprit, results.tests), results.backend(fault))
    proof = evidence(fault, results.tests) if culprit.proven else ()
    return scribe.finding(
        outcome,
        summary,
        **subject,
        expected=symptom.expected,
        found=symptom.found,
        cause=explanation.words or symptom.cause,
        remedy=explanation.remedy or symptom.remedy,
        commands=explanation.commands if explanation.remedy else symptom.commands,
        retest=retest,
        evidence=(*proof, *explanation.evidence, *symptom.details),
        culprit=_at_fault(culprit, explanation, symptom.trouble) if outcome is Outcome.FAIL else None,
    )


def _outcome(culprit: Named, explanation: Why) -> Outcome:
    is_fact = explanation.near and explanation.blames is not None
    return Outcome.WARN if culprit.intermittent and not is_fact else Outcome.FAIL


def _subject(culprit: Named) -> Subject:
    first, *peers = culprit.one.members or ("",)
    host, _, digits = first.partition("/")
    device = int(digits) if digits else None
    match culprit.kind:
        case "link":
            return {"host": host, "device": device, "peer": peers[0]}
        case "host" | "device":
            return {"host": host, "device": None if peers else device}
        case "rail":
            return {"rail": device}
    return {}


def _explanation(results: ProbeResults, fault: Located, *, alone: bool) -> Why:
    members = fault.members or tuple(sorted(host.name for host in results.scribe.hosts))
    failure = LocatedFailure(
        results.scribe.cluster,
        replace(fault, members=members),
        _MODES.get(fault.outcome, FailureMode.ALONE if alone else FailureMode.TOGETHER),
        results.backend(fault),
        _common_scope(failed_tests(fault, results.tests)) is Scope.ALL,
    )
    return why(failure, results.causes)


def _is_reported(culprit: Named, explanation: Why) -> bool:
    """Return whether another finding of the probe reports the cause, and this failure only follows from it."""
    return explanation.elsewhere and (explanation.near or not culprit.proven)


def _at_fault(culprit: Named, explanation: Why, trouble: str) -> Culprit | None:
    """Return the object at fault, or None if tests cannot decide between objects, and facts do not, either."""
    kind, members = _decided(culprit, explanation)
    # A pair that failed once does not prove a faulty link, unless facts do, or unless both ends are in one host.
    is_open = kind == "link" and not (culprit.proven or explanation.words) and len(hosts_of(members)) > 1
    if kind == "group" or is_open:
        return None
    return Culprit(kind, members, culprit.one.tests, explanation.words or trouble)


def _decided(culprit: Named, explanation: Why) -> tuple[str, tuple[str, ...]]:
    """Return kind and members of the culprit. If tests cannot decide between objects, facts may."""
    undecided = culprit.kind == "link" or (culprit.kind == "group" and not culprit.proven)
    if explanation.blames and (undecided or explanation.facts_decide):
        return explanation.blames
    return culprit.kind, culprit.outside


def _common_scope(tests: Iterable[TestResult]) -> Scope | None:
    scopes = {test.scope for test in tests}
    return scopes.pop() if len(scopes) == 1 else None


def _smallest_group(culprit: Named, tests: Mapping[str, TestResult]) -> tuple[Iterable[str], Scope]:
    """Return the fewest hosts with which the culprit fails again, and the scope of the tests."""
    own, failures = hosts_of(culprit.one.members), failed_tests(culprit.one, tests)
    if culprit.kind == "partition":
        return hosts_of(side[0] for side in culprit.sides), Scope.PAIR
    if scope := _WHOLE_GROUPS.get(culprit.kind):
        return own, scope
    if any(test.stage in _ALONE for test in failures):
        return own, Scope.DEVICE
    if culprit.kind in ("host", "device", "group") and _common_scope(failures) not in (None, Scope.PAIR):
        return (member.host for member in failures[0].members), failures[0].scope
    if culprit.kind in ("host", "device"):
        own |= set(sorted(hosts_of(partners(culprit.one, tests)))[:1])
    return own, Scope.PAIR


def command(scribe: All, hosts: Iterable[str], scope: Scope, backend: str = "") -> str:
    """Return `preflight probe --limit node03,node05 --scope pair`. The report adds the inventory."""
    limit = sorted(set(hosts))
    words = ["preflight probe"]
    if limit and len(limit) < len(scribe.cluster.hosts):
        words.append(f"--limit {','.join(limit) if len(limit) <= SHOWN else shlex.quote(folded(limit))}")
    if backend not in ("", scribe.cluster.probe.backend):
        words.append(f"--backend {backend}")
    if scribe.cluster.probe.via != "ssh":
        words.append(f"--via {scribe.cluster.probe.via}")
    return " ".join([*words, f"--scope {scope}"])
