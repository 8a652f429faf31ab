"""Findings of checks that could not run, grouped by the obstacle. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from preflight.checks.engine.obstacles import host_of, reason
from preflight.model.finding import Finding

_OF_INVENTORY = re.compile(r"(?:set|correct) [^;]* under \[(?:probe|ssh)\] (?:of|in) the inventory")
LISTED = 4  # checks in a heading


def obstacle(finding: Finding) -> str:
    """Return the obstacle of a check that could not run: its remedy, or else its reason. Empty if the check ran."""
    why = reason(finding)
    return (finding.remedy.replace(host_of(finding) or "\0", "\0") or why) if why else ""


def shared_obstacles(findings: Iterable[Finding]) -> Mapping[str, Sequence[Finding]]:
    """Return the findings of each obstacle that several checks met."""
    blind: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if hindrance := obstacle(finding):
            blind[hindrance].append(finding)
    return {hindrance: same for hindrance, same in blind.items() if len({finding.check for finding in same}) > 1}


def of_inventory(finding: Finding) -> str:
    """Return the key of the inventory that the remedy begins with, or ""."""
    match = _OF_INVENTORY.match(finding.remedy)
    return match.group() if match else ""


def removal(findings: Iterable[Finding]) -> str:
    """Return the remedy of the obstacle that blocked most checks, or "" if none is known."""
    removable = [same for same in shared_obstacles(findings).values() if same[0].remedy]
    return max(removable, key=lambda same: len({finding.check for finding in same}))[0].remedy if removable else ""
