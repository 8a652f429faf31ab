"""Findings that could not look, by what kept them from it. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from preflight.checks.engine.obstacles import host_of, reason
from preflight.model.finding import Finding

_OF_INVENTORY = re.compile(r"(?:set|correct) [^;]* under \[(?:probe|ssh)\] of the inventory")
LISTED = 4  # checks whose ids stand in a heading


def obstacle(finding: Finding) -> str:
    """Return what kept the check from looking: what removes it, or else the reason. Empty where it did look."""
    why = reason(finding)
    return (finding.remedy.replace(host_of(finding) or "\0", "\0") or why) if why else ""


def shared_obstacles(findings: Iterable[Finding]) -> Mapping[str, Sequence[Finding]]:
    """Return the findings of each obstacle that several checks met."""
    blind: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if what := obstacle(finding):
            blind[what].append(finding)
    return {what: same for what, same in blind.items() if len({finding.check for finding in same}) > 1}


def of_inventory(finding: Finding) -> str:
    """Return the key of the inventory that the remedy begins with; empty where it begins with something else."""
    match = _OF_INVENTORY.match(finding.remedy)
    return match.group() if match else ""


def removal(findings: Iterable[Finding]) -> str:
    """Return what removes the obstacle that most checks met; empty where that is not known."""
    known = [same for same in shared_obstacles(findings).values() if same[0].remedy]
    return max(known, key=lambda same: len({finding.check for finding in same}))[0].remedy if known else ""
