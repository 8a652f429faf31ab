"""Findings about culprits, in the words that PRB101, PRB102 and PRB103 share."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from preflight.attribution.causes import FailureMode, LocatedFailure, why
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
from preflight.checks.engine.registry import All
from preflight.model.finding import Finding
from preflight.model.measure import STAGES, Culprit, Observation, Scope, TestOutcome, TestResult

_WAYS = {TestOutcome.SLOW: FailureMode.SLOW, TestOutcome.WRONG_DATA: FailureMode.WRONG}


def again(all_: All, it: Named, tests: Mapping[str, TestResult], backend: str = "") -> str:
    """Return the command that shows the problem again."""
    own = hosts_of(it.one.members)
    failing = failed_tests(it.one, tests)
    if it.kind == "partition":
        return command(all_, (side[0].partition("/")[0] for side in it.sides), Scope.PAIR, backend)
    if it.kind in ("rail", "scale"):
        return command(all_, own, Scope.RAIL if it.kind == "rail" else Scope.ALL, backend)
    if any(STAGES.index(test.stage) < STAGES.index("device") for test in failing):
        return command(all_, own, Scope.DEVICE, backend)  # the device fails alone
    if (
        failing
        and it.kind in ("host", "device", "group")
        and all(test.scope is failing[0].scope is not Scope.PAIR for test in failing)
    ):
        return command(all_, (member.host for member in failing[0].members), failing[0].scope, backend)
    partner = sorted(hosts_of(partners(it.one, tests)))[:1] if it.kind in ("host", "device") else []
    return command(all_, (*own, *partner), Scope.PAIR, backend)


def command(all_: All, hosts: Iterable[str], scope: Scope, backend: str = "") -> str:
    """Return `preflight probe --limit node03,node05 --scope pair`; the report adds the inventory."""
    limit = sorted(set(hosts))
    words = ["preflight probe"]
    if limit and len(limit) < len(all_.cluster.hosts):
        words.append(f"--limit {','.join(limit) if len(limit) <= SHOWN else shlex.quote(folded(limit))}")
    if backend not in ("", all_.cluster.probe.backend):
        words.append(f"--backend {backend}")
    if all_.cluster.probe.via != "ssh":
        words.append(f"--via {all_.cluster.probe.via}")
    return " ".join([*words, f"--scope {scope}"])


def tell(
    all_: All,
    it: Named,
    observations: Sequence[Observation],
    causes: Sequence[Finding] | None,
    *,
    trouble: str,
    summary: str = "",
    likely: str = "",
    remedy: str = "",
    details: Iterable[str] = (),
    report: Callable[..., Finding] | None = None,
    alone: bool = False,
    **more: Any,
) -> Finding:
    """Return the one finding about an object that tests identify, with the explanation from the facts.

    `trouble`: the class of cause without such an explanation, `likely` the same in a sentence. `alone`: the object
    failed without a partner.

    The finding is a skip if another finding of the probe explains it. Without `report` it is a failure, or a warning
    for an object that fails intermittently. If tests cannot decide between objects, the culprit is the one that the
    facts name."""
    tests, fault = by_id(observations), it.one
    report = report or (all_.warn if it.intermittent else all_.bad)
    is_one_object = it.kind == "link" or len(fault.members) == 1
    whole = fault if fault.members else replace(fault, members=tuple(sorted(host.name for host in all_.hosts)))
    way = _WAYS.get(fault.outcome, FailureMode.ALONE if alone else FailureMode.TOGETHER)
    meetings = (observation.meeting for observation in observations if observation.test.id in fault.tests)
    backend = next((meeting.backend for meeting in meetings if meeting), all_.cluster.probe.backend)
    together = [test.scope for test in failed_tests(fault, tests)]
    all_devices = bool(together) and set(together) == {Scope.ALL}
    explanation = why(LocatedFailure(all_.cluster, whole, way, backend, all_devices), causes)
    host, _, device = fault.members[0].partition("/") if it.kind in ("host", "device", "link") else ("", "", "")
    summary = summary or sentence(it)
    if explanation.elsewhere and (explanation.near or not it.proven):
        return all_.skip(f"{summary}: {explanation.words} tells why", host=host or None)
    # Facts may decide which object is at fault.
    unknown = explanation.facts_decide or it.kind == "link" or (it.kind == "group" and not it.proven)
    kind, members = (explanation.blames if unknown else None) or (it.kind, it.outside)
    # A pair that failed once does not prove a faulty link, unless facts do, or unless both ends are in one host.
    open_ = kind == "group" or (
        kind == "link" and not it.proven and not explanation.words and len(hosts_of(members)) > 1
    )
    is_failure = report == all_.bad and not open_
    return report(
        summary,
        host=host or None,
        device=int(device) if device and is_one_object else None,
        rail=int(fault.members[0].partition("/")[2]) if it.kind == "rail" else None,
        peer=fault.members[1] if it.kind == "link" else None,
        cause=explanation.words or likely,
        remedy="; ".join(
            filter(None, (explanation.remedy or remedy, f"to see it again: {again(all_, it, tests, backend)}"))
        ),
        evidence=(*(evidence(fault, tests) if it.proven else ()), *explanation.evidence, *details),
        culprit=Culprit(kind, members, fault.tests, explanation.words or trouble) if is_failure else None,
        **more,
    )
