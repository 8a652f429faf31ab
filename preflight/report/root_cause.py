"""Root causes among findings: which comes first, and which follow from another one. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

KIND, GENERATION = "HST135", "NPU126"  # checks of the product; a wrong product makes other findings doubtful
REACHABILITY = ("HST101", "HST107")  # ssh, python3 and sudo
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


def consequences(findings: Iterable[Finding]) -> Mapping[Finding, str]:
    """Return the findings that follow from another check's failure, and the check with the root cause.

    Causes name their check in parentheses, as "link down (NPU107)". A warning explains no failure: it may be older.
    """
    causes = {finding: _cause(finding) for finding in findings}
    by_check: dict[str, set[str]] = defaultdict(set)  # check that failed → the causes that its failures name
    for finding, cause in causes.items():
        if finding.outcome is Outcome.FAIL:
            by_check[finding.check].add(cause)
    roots = {finding: _root(cause, by_check) for finding, cause in causes.items()}
    return {finding: root for finding, root in roots.items() if root}


def _root(check: str, by_check: Mapping[str, Collection[str]]) -> str:
    """Return the check at the end of a chain of failures that begins with `check`; "" if there is none."""
    passed: list[str] = []
    while check in by_check and check not in passed:
        passed.append(check)
        causes = by_check[check]
        check = next(iter(causes)) if len(causes) == 1 else ""
    is_circle = check in passed
    return passed[-1] if passed and not is_circle else ""


def _cause(finding: Finding) -> str:
    """Return the check that the finding's cause names, "" if none, or itself."""
    match = _CHECK.search(finding.cause)
    return match[1] if match and match[1] != finding.check else ""
