"""Unhealthy hosts, those with the same problem together. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from preflight.grouping import grouped
from preflight.model.finding import Finding, with_outcome
from preflight.model.outcome import Outcome
from preflight.report.blocks import FindingGroup, folded
from preflight.report.root_cause import consequences, names_check, priority

_UNHEALTHY = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)


class HostProblem(NamedTuple):
    """The worst problem of some hosts. Without `hosts` it is one between hosts, which no host has alone."""

    outcome: Outcome
    hosts: tuple[str, ...]
    words: str  # the check, and what it found
    further: int  # the number of further problems that are as bad


_Order = tuple[int, bool, tuple[int, str]]


def host_problems(findings: Iterable[Finding]) -> list[HostProblem]:
    """Return the unhealthy hosts by their worst problem, the worst first, and of these the root cause."""
    unhealthy = [finding for finding in findings if finding.outcome in _UNHEALTHY]
    explained = consequences(unhealthy)

    def order(finding: Finding) -> _Order:
        return list(Outcome).index(finding.outcome), finding in explained, priority(finding)

    by_host = grouped((finding.host, finding) for finding in unhealthy)
    worst = {host: min(same, key=order) for host, same in by_host.items()}
    hosts = grouped(((order(worst[host]), *_words(worst[host], same)), host) for host, same in by_host.items())
    return [
        HostProblem(list(Outcome)[rank[0]], tuple(filter(None, alike)), words, further)
        for (rank, words, further), alike in sorted(hosts.items(), key=lambda item: item[0][0])
    ]


def _words(worst: Finding, findings: Sequence[Finding]) -> tuple[str, int]:
    """Return the worst of one host's findings in words, and the number of others that are as bad."""
    by_check = grouped((finding.check, finding) for finding in with_outcome(findings, worst.outcome))
    first, *further = folded(by_check[worst.check])
    return f"{worst.check} {_first_clause(first)}", len(further) + len(by_check) - 1


def _first_clause(group: FindingGroup) -> str:
    """Return the first sentence of the summary, up to a rank's stage. What other checks have found comes first."""
    clause = group.summary.partition(". ")[0].partition(" (last stage")[0]
    return f"{group.cause}: {clause}" if names_check(group.cause) else clause
