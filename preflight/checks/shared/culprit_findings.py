"""Findings about culprits, in the words that PRB101, PRB102 and PRB103 share."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from preflight.attribution.causes import FailureMode, why
from preflight.attribution.culprits import (
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
    """The command that shows it again."""
    own = hosts_of(it.one.members)
    accusing = failed_tests(it.one, tests)
    if it.kind == "partition":
        return command(all_, (side[0].partition("/")[0] for side in it.sides), Scope.PAIR, backend)
    if it.kind in ("rail", "scale"):
        return command(all_, own, Scope.RAIL if it.kind == "rail" else Scope.ALL, backend)
    if any(STAGES.index(test.stage) < STAGES.index("device") for test in accusing):
        return command(all_, own, Scope.DEVICE, backend)  # it needs nobody else
    if (
        accusing
        and it.kind in ("host", "device", "group")
        and all(test.scope is accusing[0].scope is not Scope.PAIR for test in accusing)
    ):
        return command(all_, (member.host for member in accusing[0].members), accusing[0].scope, backend)
    partner = sorted(hosts_of(partners(it.one, tests)))[:1] if it.kind in ("host", "device") else []
    return command(all_, (*own, *partner), Scope.PAIR, backend)


def command(all_: All, hosts: Iterable[str], scope: Scope, backend: str = "") -> str:
    """`preflight probe --limit node03,node05 --scope pair`; the report adds the inventory."""
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
    """The one finding about an object that tests name, with what facts say of it. `trouble`: the class of cause where
    facts give none, `likely` the same in a sentence; `alone`: it needed nobody else to fail. A skip where another
    finding of the probe has told it; without `report` a failure, or a warning of who fails now and then. The culprit
    of what tests could not tell apart is whom facts name for it."""
    tests, one = by_id(observations), it.one
    report = report or (all_.warn if it.intermittent else all_.bad)
    named_one = it.kind == "link" or len(one.members) == 1
    whole = one if one.members else replace(one, members=tuple(sorted(host.name for host in all_.hosts)))
    way = _WAYS.get(one.outcome, FailureMode.ALONE if alone else FailureMode.TOGETHER)
    meetings = (seen.meeting for seen in observations if seen.test.id in one.tests)
    backend = next((met.backend for met in meetings if met), all_.cluster.probe.backend)
    together = [test.scope for test in failed_tests(one, tests)]
    all_devices = bool(together) and set(together) == {Scope.ALL}
    known = why(all_.cluster, whole, way, backend, causes, all_devices=all_devices)
    host, _, device = one.members[0].partition("/") if it.kind in ("host", "device", "link") else ("", "", "")
    summary = summary or sentence(it)
    if known.elsewhere and (known.near or not it.proven):
        return all_.skip(f"{summary}: {known.words} tells why", host=host or None)
    # Facts may know which of them it is.
    unknown = known.facts_decide or it.kind == "link" or (it.kind == "group" and not it.proven)
    kind, members = (known.blames if unknown else None) or (it.kind, it.outside)
    # A pair that failed once is no link yet, unless facts say so, or nobody else is there, within a host.
    open_ = kind == "group" or (kind == "link" and not it.proven and not known.words and len(hosts_of(members)) > 1)
    convicts = report == all_.bad and not open_
    return report(
        summary,
        host=host or None,
        device=int(device) if device and named_one else None,
        rail=int(one.members[0].partition("/")[2]) if it.kind == "rail" else None,
        peer=one.members[1] if it.kind == "link" else None,
        cause=known.words or likely,
        remedy="; ".join(filter(None, (known.remedy or remedy, f"to see it again: {again(all_, it, tests, backend)}"))),
        evidence=(*(evidence(one, tests) if it.proven else ()), *known.evidence, *details),
        culprit=Culprit(kind, members, one.tests, known.words or trouble) if convicts else None,
        **more,
    )
