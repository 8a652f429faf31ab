"""Root causes among findings: which comes first, and which follow from another one. Pure."""

import re
from collections.abc import Iterable, Mapping

from preflight.model.finding import Finding, with_outcome
from preflight.model.outcome import Outcome

KIND, GENERATION = "HST135", "NPU126"  # checks of the product; a wrong product makes other findings doubtful
REACHABILITY = ("HST101", "HST107")  # ssh, python3 and sudo
# A check that repeats what another one tests: net health is the device's own ping of its gateway.
_REPEATS = {"NPU110": "PNG101"}
_CHECK = re.compile(r"\(([A-Z]{3}[0-9]{3})\)")


def priority(finding: Finding) -> tuple[int, str]:
    """Return the order of a finding among those with the same outcome.

    Other findings depend on whether hosts are reached, then on the product. Then come those that preflight can fix,
    then other facts, pings and tests. The order is the same on the screen and in the choice of the next command.
    """
    if finding.check in REACHABILITY:
        rank = 0
    elif finding.check in (KIND, GENERATION):
        rank = 1
    elif finding.change:
        rank = 2
    else:
        rank = {"PNG": 4, "PRB": 5}.get(finding.check[:3], 3)
    return rank, finding.check


def root_cause(problems: Iterable[Finding]) -> Finding | None:
    """Return the first of the problems that follows from no other one, or None if there are no problems."""
    all_problems = list(problems)
    explained = consequences(all_problems)
    return min((problem for problem in all_problems if problem not in explained), key=priority, default=None)


def consequences(findings: Iterable[Finding]) -> Mapping[Finding, Finding]:
    """Return the findings that follow from another check's failure on one of their hosts, each with that failure.

    Causes name their check in parentheses, as "link down (NPU107)". A warning explains no failure: it may be older.
    """
    all_findings = list(findings)
    failures: dict[tuple[str, str | None], Finding] = {}  # by check and each of their hosts, None if there is none
    for failure in with_outcome(all_findings, Outcome.FAIL):
        for host in _hosts(failure):
            failures.setdefault((failure.check, host), failure)
    roots = ((finding, _root(finding, failures)) for finding in all_findings)
    return {finding: root for finding, root in roots if root}


def _root(finding: Finding, failures: Mapping[tuple[str, str | None], Finding]) -> Finding | None:
    """Return the failure at the end of a chain of causes, or None if there is no chain, or if it is a circle."""
    chain = [finding]
    while cause := _cause(chain[-1], failures):
        if cause in chain:
            return None
        chain.append(cause)
    return chain[-1] if len(chain) > 1 else None


def _cause(finding: Finding, failures: Mapping[tuple[str, str | None], Finding]) -> Finding | None:
    """Return the failure that the finding's cause names, or that the finding repeats, if it is about one of its hosts,
    or about none."""
    match = _CHECK.search(finding.cause)
    if not match:
        return _repeated(finding, failures)
    if match[1] == finding.check:
        return None
    hosts = (*_hosts(finding), None)
    return next((failures[match[1], host] for host in hosts if (match[1], host) in failures), None)


def _repeated(finding: Finding, failures: Mapping[tuple[str, str | None], Finding]) -> Finding | None:
    """Return the failure that the finding repeats: the same device's, or that of a group with its host."""
    failure = failures.get((_REPEATS.get(finding.check, ""), finding.host))
    if failure is None:
        return None
    members = failure.culprit.members if failure.culprit else ()
    same_device = (failure.host, failure.device) == (finding.host, finding.device)
    return failure if same_device or finding.host in members else None


def names_check(cause: str) -> bool:
    """Return whether the cause is what another check has found, and not a usual cause."""
    return bool(_CHECK.search(cause))


def _hosts(finding: Finding) -> tuple[str | None, ...]:
    """Return the hosts that a finding is about: its own, and those of its culprit. (None,) if there is none."""
    members = finding.culprit.members if finding.culprit else ()
    places = (*filter(None, (finding.host,)), *members)
    return tuple(dict.fromkeys(place.partition("/")[0] for place in places)) or (None,)
