"""Tests of a probe over eight hosts with two devices each, as observations, and what the probe's checks say of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Cluster, Device, Host, ProbeSettings
from preflight.model.finding import Finding
from preflight.model.measure import End, Located, Meeting, Member, Observation, RankView, Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome
from tests.unit.healthy import healthy_cluster, host_facts

NAMES = tuple(f"node{number:02}" for number in range(1, 9))
CLUSTER: Cluster = replace(
    healthy_cluster(),
    probe=ProbeSettings(backend="hccl"),
    hosts=tuple(Host(name, f"10.1.0.{name[-1]}", devices=(Device(0), Device(1))) for name in NAMES),
)
FACTS = ClusterFacts({host.name: host_facts(CLUSTER, host, number) for number, host in enumerate(CLUSTER.hosts, 1)})
EVERYBODY = tuple(f"{name}/{device}" for name in NAMES for device in (0, 1))
PROBE = ("PRB101", "PRB102", "PRB103")


def seen(id_: str, *places: str, outcome: str = "pass", stage: str = "", **more: Any) -> Observation:
    """One test of these devices ("node01/3"). Those that did not end well stopped at the communicator, unless
    `stage` says otherwise. `ranks`: place → what differs of its view; `backend`, if not the cluster's."""
    split = [place.partition("/") for place in places]
    members = tuple(Member(host, int(device), rank) for rank, (host, _, device) in enumerate(split))
    stage = stage or ("peers" if outcome in ("fail", "hang") else "closed")
    ranks = more.pop("ranks", {})
    given: dict[str, Any] = {
        "op": "all_reduce",
        "bytes": 1 << 24,
        "root": None,
        "scope": "pair" if len(places) == 2 else "all",
    } | more
    ranks = {place: {**view, "end": End(view["end"]) if "end" in view else None} for place, view in ranks.items()}
    views = tuple(RankView(member, **{"stage": stage, **ranks.get(member.place, {})}) for member in members)
    busbw = given.get("busbw_GBps")
    result = TestResult(
        id_, given["op"], "float32", given["bytes"], given["root"], members, TestOutcome(outcome), stage,
        sum(view.wrong_values for view in views), 0.1 if busbw else None, busbw, busbw, Scope(given["scope"]),
    )  # fmt: skip
    meeting = Meeting(more["backend"], "10.1.0.1:29500", {}) if "backend" in more else None
    return Observation(result, views, meeting)


def located(
    kind: str, members: Sequence[str], tests: Sequence[str], outcome: str = "hang", direction: str = ""
) -> Located:
    return Located(kind, tuple(members), tuple(tests), TestOutcome(outcome), direction)


def cause(check: str, host: str | None, device: int | None = None, outcome: str = "fail", **more: Any) -> Finding:
    """What a check of facts has found."""
    where = "".join(f"{word}: " for word in (host, f"device {device}" if device is not None else None) if word)
    given = {"summary": f"{where}what {check} says", "remedy": f"fix {check}", **more}
    return Finding(check, Outcome(outcome), host=host, device=device, **given)


def judged(
    observations: Sequence[Observation],
    named: Sequence[Located] | None = None,
    causes: Sequence[Finding] | None = None,
    checks: Sequence[str] = PROBE,
) -> list[Finding]:
    """The failures and warnings of these checks."""
    rounds = {"observations": tuple(observations), "located": named, "causes": causes}
    found = run_checks(
        CLUSTER, FACTS, checks=[all_checks()[id_] for id_ in checks], hosts=CLUSTER.hosts, rounds=rounds
    )  # fmt: skip
    return [finding for finding in found if finding.outcome in (Outcome.FAIL, Outcome.WARN)]
