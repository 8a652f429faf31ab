"""Findings in groups and blocks: similar ones together, the worst first. Pure."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from preflight.grouping import grouped
from preflight.model.finding import Finding
from preflight.model.number_ranges import number_ranges
from preflight.model.outcome import Outcome, overall
from preflight.report.obstacles import LISTED, obstacle, shared_obstacles
from preflight.report.root_cause import consequences, priority

_DEVICE = "\1"  # placeholder for a finding's device while findings are compared

LINES_A_CHECK = 8  # folded findings of one check that are shown; the others are counted
MOST_FIXES = 3
_HOSTS = 8  # names of hosts in a sentence; more are counted

Fold = Callable[[Iterable[str]], str]  # of host names to node[01-16]


@dataclass(frozen=True)
class Fix:
    """The first thing to do, and what to type for it."""

    remedy: str
    commands: tuple[str, ...]


@dataclass(frozen=True)
class FindingGroup:
    """Findings with the same text about several hosts or devices. `first` is shown for all."""

    first: Finding
    summary: str
    hosts: tuple[str, ...]
    devices: tuple[int, ...]
    causes: frozenset[str]
    fixes: frozenset[Fix]

    @property
    def cause(self) -> str:
        """The cause if it is the same for all findings; many causes name the address of one device."""
        return self.first.cause if len(self.causes) == 1 else ""

    @property
    def fix(self) -> Fix:
        """The fix of the first finding, with a note where the others have another command or name another host."""
        remedy, commands = self.first.remedy, self.first.commands
        is_first = len({fix.commands for fix in self.fixes}) > 1 if commands else f"{self.first.host}" in remedy
        if remedy and is_first and not self.single:
            remedy += f" (do the same for the other {'hosts' if len(self.hosts) > 1 else 'devices'})"
        return Fix(remedy, commands)

    @property
    def single(self) -> bool:
        return len(self.hosts) <= 1 and len(self.devices) <= 1

    @property
    def compared(self) -> str:
        """The expected and the found value, without what the summary has. Several subjects have several values."""
        first = self.first
        has_found = _contains(first.summary, first.found)
        if not self.single or (has_found and _contains(first.summary, first.expected)):
            return ""
        values = (("expected", first.expected), ("found", "" if has_found else first.found))
        return "; ".join(f"{word} {value}" for word, value in values if value)


def _contains(text: str, value: str) -> bool:
    """Return whether the text has the value as whole words: 1 is not in 10."""
    return not value or bool(re.search(rf"(?<![\w.]){re.escape(value)}(?![\w]|\.\d)", text))


def _without_subject(finding: Finding) -> str:
    """Return the summary without its host in front and with a placeholder for its device, for comparisons."""
    text = finding.summary.removeprefix(f"{finding.host}: ")
    if finding.device is not None:
        text = re.sub(rf"\bdevice {finding.device}\b", _DEVICE, text, count=1)
    return text


def folded(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Fold findings over the devices of each host, then over hosts with the same text and devices."""
    by_host: dict[tuple[str | None, Outcome, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        by_host[finding.host, finding.outcome, _without_subject(finding)].append(finding)
    groups: dict[tuple[Outcome, str, tuple[int, ...]], list[Finding]] = defaultdict(list)
    for (_, outcome, text), same in by_host.items():
        devices = tuple(sorted({finding.device for finding in same if finding.device is not None}))
        groups[outcome, text, devices] += same
    result = []
    for (_, text, devices), same in groups.items():
        hosts = tuple(dict.fromkeys(finding.host for finding in same if finding.host is not None))
        device_words = f"device{'s' if len(devices) > 1 else ''} {number_ranges(devices)}"
        causes = frozenset(finding.cause for finding in same)
        fixes = frozenset(Fix(finding.remedy, finding.commands) for finding in same)
        result.append(FindingGroup(same[0], text.replace(_DEVICE, device_words), hosts, devices, causes, fixes))
    return sorted(result, key=lambda group: list(Outcome).index(group.first.outcome))


def _severity(findings: Iterable[Finding]) -> int:
    return list(Outcome).index(overall(finding.outcome for finding in findings))


@dataclass(frozen=True)
class FindingBlock:
    """Findings of one check, or of several checks with a common obstacle.

    `explained` are findings of other checks that follow from these.
    """

    checks: tuple[str, ...]
    findings: tuple[Finding, ...]
    explained: tuple[Finding, ...] = ()


def blocks(findings: Iterable[Finding], *, unfold: bool = False) -> list[FindingBlock]:
    """Return the findings in blocks: the worst first, and of these the root cause.

    A finding whose cause is a failure of another check is in that check's block, unless `unfold` is set.
    """
    every = list(findings)
    explained = {} if unfold else consequences(every)
    followers = grouped((root.check, finding) for finding, root in explained.items())
    findings = [finding for finding in every if finding not in explained]
    shared = shared_obstacles(findings)
    by_check = grouped((finding.check, finding) for finding in findings if obstacle(finding) not in shared)
    blocks = [FindingBlock((check,), tuple(same), tuple(followers.get(check, ()))) for check, same in by_check.items()]
    blocks += map(_of_obstacle, shared.values())
    return sorted(blocks, key=lambda block: (_severity(block.findings), min(map(priority, block.findings))))


def _of_obstacle(findings: Iterable[Finding]) -> FindingBlock:
    """Return the block of an obstacle that several checks met, with each distinct sentence once."""
    distinct = {(finding.host, finding.device, finding.summary): finding for finding in findings}
    return FindingBlock(tuple(sorted({finding.check for finding in findings})), tuple(distinct.values()))


def heading(checks: Sequence[str], titles: Mapping[str, str]) -> str:
    """Return the heading of a block of findings."""
    if len(checks) == 1:
        return f"{checks[0]}  {titles.get(checks[0], '')}"
    return ", ".join(checks) if len(checks) <= LISTED else f"{len(checks)} checks could not run"


def explained_words(block: FindingBlock, titles: Mapping[str, str], fold: Fold) -> str:
    """Return the sentence about findings that follow from the block's own, "" if there are none."""
    words = []
    for check, findings in grouped((finding.check, finding) for finding in block.explained).items():
        hosts = dict.fromkeys(finding.host for finding in findings if finding.host)
        place = fold(hosts) if len(hosts) <= _HOSTS else f"{len(hosts)} hosts"
        words.append(f"{check} {titles.get(check, '')}".strip() + (f" ({place})" if hosts else ""))
    return f"follows from this: {', '.join(words)}" if words else ""


def fixes(groups: Sequence[FindingGroup]) -> tuple[list[Fix], str]:
    """Return the first distinct fixes of one check, and the line that counts the further ones, or ""."""
    distinct = dict.fromkeys(group.fix for group in groups)
    all_fixes = [fix for fix in distinct if fix.remedy or fix.commands]
    remainder = len(all_fixes) - MOST_FIXES
    line = f"… and {remainder} more {'fixes' if remainder > 1 else 'fix'}: -o json lists all" if remainder > 0 else ""
    return all_fixes[:MOST_FIXES], line


def retests(groups: Sequence[FindingGroup]) -> list[str]:
    """Return the distinct commands that show these findings again."""
    return list(dict.fromkeys(group.first.retest for group in groups[:LINES_A_CHECK] if group.first.retest))[
        :MOST_FIXES
    ]
