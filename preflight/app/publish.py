"""Publication of a report: each host is sent its part, for the gate there."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from preflight.app.session import Session
from preflight.checks.engine.registry import all_checks
from preflight.facts.types import ClusterFacts, HostFacts, Unreachable
from preflight.gate.publish import publish
from preflight.gate.verdict import looks_of, versions_of
from preflight.inventory import fold
from preflight.model.report import Report
from preflight.provision.apply import Way


class Published(NamedTuple):
    """Notes on the publication, and whether every reached host accepted it (`everywhere`)."""

    notes: tuple[str, ...]
    everywhere: bool


def publish_report(s: Session, facts: ClusterFacts, report: Report) -> Published:
    """Send each reached host its part of the report. `facts` are those that the report is made of."""
    reached = [line.name for line in report.hosts if not isinstance(facts.hosts.get(line.name), Unreachable)]
    needs = {id_: check.needs for id_, check in all_checks().items()}
    parts = looks_of(report, reached, needs, _versions(facts))
    hosts = [host for host in s.cluster.hosts if host.name in parts]
    answers = publish(s.cluster, parts, Way(hosts, s.transport, s.pool, s.progress))
    s.progress.clear()
    errors = {name: answer.error for name, answer in answers.items()}
    outdated = [name for name, answer in answers.items() if answer.outdated]
    notes = _notes({**errors, **_unpublished(report, answers)}, outdated)
    return Published(tuple(notes), not any(errors.values()))


def _versions(facts: ClusterFacts) -> dict[str, dict[str, str]]:
    """Return the versions on each reached host."""
    hosts = facts.hosts.items()
    return {name: versions_of(host_facts) for name, host_facts in hosts if isinstance(host_facts, HostFacts)}


def _unpublished(report: Report, published: Collection[str]) -> dict[str, str]:
    """Return the hosts of the report that were sent nothing, and why."""
    left_out = {entry.host: "left out" for entry in report.left_out}
    return {line.name: left_out.get(line.name, "not reached") for line in report.hosts if line.name not in published}


def _notes(errors: Mapping[str, str], outdated: Sequence[str]) -> Iterator[str]:
    """Yield sentences on hosts with the result, on each reason why others lack it, and on gates that ignore it."""
    for why in sorted(set(errors.values())):
        names = fold(name for name, reason in errors.items() if reason == why)
        yield f"not published on {names}: {why}" if why else f"published on {names}"
    if outdated:
        yield (
            f"the gate on {fold(outdated)} uses an older version of the inventory and ignores these results. Run "
            "preflight gate install"
        )
