"""Differences of two runs: facts, findings, figures. Pure; it judges nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from preflight.facts.documents.differences import FactsCompared, compared
from preflight.facts.types import ClusterFacts, Unreachable
from preflight.model.figures import LIMITS, Baseline, Comparison, Figure, comparable, compare
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

_TELLING = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)
_REACH = "HST101"  # the check of hosts that were not reached
_NOTHING = FactsCompared((), {})


@dataclass(frozen=True)
class Side:
    """A run, or a file of one. A field is None if the run does not contain it.

    `checks` has the ids of the checks that have run, each with the hosts that it skipped.
    """

    name: str  # "run 20261121-104209-1f3a", or the file
    run: str = ""
    command: str = ""
    started: str = ""
    verdict: Outcome | None = None
    hosts: tuple[str, ...] = ()
    facts: ClusterFacts | None = None
    findings: tuple[Finding, ...] | None = None
    checks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    figures: tuple[Figure, ...] | None = None
    next_step: str = ""


@dataclass(frozen=True)
class FindingChange:
    """A finding that changed. `before` and `after` are None if there was none. `finding` is the latest version."""

    before: Outcome | None
    after: Outcome | None
    finding: Finding


@dataclass(frozen=True)
class Diff:
    """The differences of two sides. `not_compared` has sentences on data that only one of them contains."""

    before: Side
    after: Side
    facts: FactsCompared
    findings: tuple[FindingChange, ...]
    figures: tuple[Comparison, ...]
    not_compared: tuple[str, ...]

    @property
    def is_different(self) -> bool:
        return bool(self.facts.differences or self.findings or any(map(moved, self.figures)))

    @property
    def is_blind(self) -> bool:
        """True if the sides have no data in common. A host that only one side reached is a difference, though."""
        compared_ = self.facts.sections or self.figures or _checked(self.before) & _checked(self.after)
        return not (compared_ or self.is_different)

    @property
    def exit_code(self) -> int:
        """1 if the sides differ, 3 if nothing could be compared, else 0."""
        return 3 if self.is_blind else int(self.is_different)

    @property
    def newer(self) -> Side:
        """The side of the later run; the second one for files without a run."""
        return max(self.after, self.before, key=lambda side: side.started)


def moved(figure: Comparison) -> bool:
    """Return whether the figure changed more than repeated measurements differ: by PRB115's limit for a warning, in
    either direction.
    """
    warn, _ = LIMITS[figure.now.shape.scope]
    return not warn <= figure.share <= 1 / warn


def _reached(side: Side) -> set[str]:
    """Return the hosts from which the side has any data."""
    facts = side.facts.hosts if side.facts else {}
    missed = {
        finding.host for finding in side.findings or () if finding.check == _REACH and finding.outcome in _TELLING
    }
    return {host for host in side.hosts if host not in missed and not isinstance(facts.get(host), Unreachable)}


def _checked(side: Side) -> set[tuple[str, str]]:
    """Return (check, host) for each host on which a check had a result. The check of reachability does not count."""
    unknown = {
        (finding.check, finding.host)
        for finding in side.findings or ()
        if finding.outcome is Outcome.UNKNOWN and finding.device is None
    }
    hosts = _reached(side)
    return {
        (check, host)
        for check, skipped in side.checks.items()
        for host in hosts - skipped
        if check != _REACH and not {(check, host), (check, None)} & unknown
    }


def diff(before: Side, after: Side) -> Diff:
    not_compared: list[str] = []
    facts = _NOTHING
    if before.facts and after.facts:
        facts = compared(before.facts, after.facts)
    else:
        not_compared += [f"facts ({side.name} has none)" for side in (before, after) if side.facts is None]
    findings = _findings(before, after, not_compared)
    figures = _figures(before, after, not_compared)
    return Diff(before, after, facts, findings, tuple(figures), tuple(not_compared))


def _figures(before: Side, after: Side, not_compared: list[str]) -> list[Comparison]:
    """Return the comparison of figures that are in both runs. Reasons why some are not go to `not_compared`."""
    if not (before.figures and after.figures):
        if before.figures or after.figures:
            not_compared += [f"figures ({side.name} has none)" for side in (before, after) if not side.figures]
        return []
    figures = compare(Baseline("", before.run, before.figures), after.figures)
    if figures:
        not_compared += _figures_alone(before, after)
    else:
        not_compared.append("figures (no operation with the same size and ranks in both)")
    return figures


def _figures_alone(before: Side, after: Side) -> Iterator[str]:
    was, now = ({figure.shape.kind for figure in comparable(side.figures or ())} for side in (before, after))
    for side, alone in ((before, was - now), (after, now - was)):
        if alone:
            yield f"{len(alone)} figure{'' if len(alone) == 1 else 's'} that only {side.name} has"


_Subject = tuple[str, str | None, int | None, int | None, str | None]


def _findings(before: Side, after: Side, not_compared: list[str]) -> tuple[FindingChange, ...]:
    """Return the changed findings of hosts and checks that are in both runs, the worst first."""
    hosts = set(before.hosts) & set(after.hosts)
    if before.findings is None or after.findings is None:
        not_compared += [f"findings ({side.name} has none)" for side in (before, after) if side.findings is None]
        return ()
    if not hosts:
        not_compared.append("findings (no host is in both)")
        return ()
    earlier, later = _by_subject(before.findings, hosts), _by_subject(after.findings, hosts)
    changes, one_sided = _changes(earlier, later, before, after)
    if one_sided:
        not_compared.append(f"findings of {', '.join(sorted(one_sided))} (not checked in one of the runs)")
    return tuple(sorted((change for change in changes if change.before is not change.after), key=_urgency))


def _changes(
    earlier: Mapping[_Subject, Finding], later: Mapping[_Subject, Finding], before: Side, after: Side
) -> tuple[list[FindingChange], set[str]]:
    """Return the findings of both runs by subject, and the checks with findings that only one run could have."""
    could_run = _could_run(after, later.values())
    changes, one_sided = [], set()
    for subject in dict.fromkeys((*earlier, *later)):
        old, new = earlier.get(subject), later.get(subject)
        finding = later.get(subject) or earlier[subject]
        if (old or _ran(before, finding)) and (new or could_run(finding)):
            changes.append(FindingChange(old.outcome if old else None, new.outcome if new else None, finding))
        else:
            one_sided.add(finding.check)
    return changes, one_sided


def _could_run(side: Side, findings: Iterable[Finding]) -> Callable[[Finding], bool]:
    """Return a function: whether the check of another run's finding could run on this side. `findings`: this side's.

    A finding is not gone if its check could not run; that check has an unknown finding then.
    """
    reached = _reached(side)
    unknown = {
        (finding.check, finding.host)
        for finding in findings
        if finding.outcome is Outcome.UNKNOWN and finding.device is None
    }

    def could_run(finding: Finding) -> bool:
        if finding.host and finding.host not in reached:
            return False
        return _ran(side, finding) and not {(finding.check, finding.host), (finding.check, None)} & unknown

    return could_run


def _ran(side: Side, finding: Finding) -> bool:
    """Return whether the check of a finding has run for its host on this side, too."""
    skipped = side.checks.get(finding.check)
    return finding.check == _REACH or (skipped is not None and finding.host not in skipped)


def _by_subject(findings: Iterable[Finding], hosts: set[str]) -> dict[_Subject, Finding]:
    """Return the worst finding of each check on each subject."""
    worst: dict[_Subject, Finding] = {}
    for finding in sorted(findings, key=lambda finding: list(Outcome).index(finding.outcome)):
        if finding.outcome in _TELLING and (finding.host is None or finding.host in hosts):
            worst.setdefault(
                (finding.check, finding.host, finding.device, finding.rail, finding.peer), replace(finding, change=None)
            )
    return worst


def _urgency(change: FindingChange) -> tuple[int, int, str]:
    """Return a sort key: new findings before those that are gone, failures before warnings."""
    order: Sequence[Outcome] = list(Outcome)
    return (change.after is None, order.index(change.after or change.before or Outcome.PASS), change.finding.check)
