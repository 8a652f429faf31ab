"""What two runs have differently: facts, findings, figures. Pure; it judges nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from preflight.facts.documents.differences import FactsCompared, compared
from preflight.facts.types import ClusterFacts, Unreachable
from preflight.model.figures import LIMITS, Baseline, Comparison, Figure, comparable, compare
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

_TELLING = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)
_REACH = "HST101"  # the check that speaks of hosts which were not reached
_NOTHING = FactsCompared((), {})


@dataclass(frozen=True)
class Side:
    """A run, or a file of one. None: it does not hold that. `checks`: the ids of those that have looked,
    and the hosts that each has skipped."""

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
    """`before`, `after`: None where there was nothing to find; `finding`: as it was said last."""

    before: Outcome | None
    after: Outcome | None
    finding: Finding


@dataclass(frozen=True)
class Diff:
    """`not_compared`: what only one of the sides holds, in words."""

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
        """There was nothing that both sides have seen; that only one reached a host is a difference."""
        compared_ = self.facts.sections or self.figures or _checked(self.before) & _checked(self.after)
        return not (compared_ or self.is_different)

    @property
    def exit_code(self) -> int:
        """Return 1 where something differs, 3 where nothing could be compared, else 0."""
        return 3 if self.is_blind else int(self.is_different)

    @property
    def newer(self) -> Side:
        """The side of the later run; of files without a run the second."""
        return max(self.after, self.before, key=lambda side: side.started)


def moved(figure: Comparison) -> bool:
    """Whether it is more than two measurements of one thing differ by: PRB115's limit for a warning, both ways."""
    warn, _ = LIMITS[figure.now.shape.scope]
    return not warn <= figure.share <= 1 / warn


def _reached(side: Side) -> set[str]:
    """The hosts of which it has seen anything."""
    facts = side.facts.hosts if side.facts else {}
    missed = {one.host for one in side.findings or () if one.check == _REACH and one.outcome in _TELLING}
    return {host for host in side.hosts if host not in missed and not isinstance(facts.get(host), Unreachable)}


def _checked(side: Side) -> set[tuple[str, str]]:
    """Return (check, host) for each host on which a check came to a result; that a host answered is none."""
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
    left: list[str] = []
    facts = _NOTHING
    if before.facts and after.facts:
        facts = compared(before.facts, after.facts)
    else:
        left += [f"facts: {side.name} has none" for side in (before, after) if side.facts is None]
    findings = _findings(before, after, left)
    figures: list[Comparison] = []
    if before.figures and after.figures:
        figures = compare(Baseline("", before.run, before.figures), after.figures)
        if not figures:
            left.append("figures: none is of the same operation, size and ranks in both")
        else:
            left += _figures_alone(before, after)
    elif before.figures or after.figures:
        left += [f"figures: {side.name} has none" for side in (before, after) if not side.figures]
    return Diff(before, after, facts, findings, tuple(figures), tuple(left))


def _figures_alone(before: Side, after: Side) -> Iterator[str]:
    was, now = ({figure.shape.kind for figure in comparable(side.figures or ())} for side in (before, after))
    for side, alone in ((before, was - now), (after, now - was)):
        if alone:
            yield f"figures: {len(alone)} {'is' if len(alone) == 1 else 'are'} only in {side.name}"


_Subject = tuple[str, str | None, int | None, int | None, str | None]


def _findings(before: Side, after: Side, left: list[str]) -> tuple[FindingChange, ...]:
    """Of the hosts that both looked at, and the checks that both ran; the worst first."""
    if before.findings is None or after.findings is None:
        left += [f"findings: {side.name} has none" for side in (before, after) if side.findings is None]
        return ()
    hosts = set(before.hosts) & set(after.hosts)
    if not hosts:
        left.append("findings: no host is in both")
        return ()
    was, now = _by_subject(before.findings, hosts), _by_subject(after.findings, hosts)
    # What could not be looked at is not gone; it has a finding that says so.
    reached = _reached(after)
    unseen = {(it.check, it.host) for it in now.values() if it.outcome is Outcome.UNKNOWN and it.device is None}
    changes, unasked = [], set()
    for subject in dict.fromkeys((*was, *now)):
        one, other = was.get(subject), now.get(subject)
        if one and other:
            if one.outcome is not other.outcome:
                changes.append(FindingChange(one.outcome, other.outcome, other))
        elif one and not (
            (one.host and one.host not in reached)
            or {(one.check, one.host), (one.check, None)} & unseen
            or not _looked(after, one)
        ):
            changes.append(FindingChange(one.outcome, None, one))
        elif other and _looked(before, other):
            changes.append(FindingChange(None, other.outcome, other))
        else:
            unasked.add(subject[0])
    if unasked:
        left.append(f"findings of {', '.join(sorted(unasked))}: one of the runs did not look, or could not")
    return tuple(sorted(changes, key=_urgency))


def _looked(side: Side, one: Finding) -> bool:
    """Whether the check of a finding of the other side has looked on this one, too."""
    return one.check == _REACH or (one.check in side.checks and one.host not in side.checks[one.check])


def _by_subject(findings: Iterable[Finding], hosts: set[str]) -> dict[_Subject, Finding]:
    """The worst finding of each check on each subject."""
    found: dict[_Subject, Finding] = {}
    for one in sorted(findings, key=lambda one: list(Outcome).index(one.outcome)):
        if one.outcome in _TELLING and (one.host is None or one.host in hosts):
            found.setdefault((one.check, one.host, one.device, one.rail, one.peer), replace(one, change=None))
    return found


def _urgency(change: FindingChange) -> tuple[int, int, str]:
    """What is new before what is gone, failures before warnings."""
    order: Sequence[Outcome] = list(Outcome)
    return (change.after is None, order.index(change.after or change.before or Outcome.PASS), change.finding.check)
