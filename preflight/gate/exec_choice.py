"""Which hosts of an allocation run the command, by what a probe of them found. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from preflight.gate.convicted import ROLL_CALL, convicted, unheard
from preflight.model.finding import Finding
from preflight.model.gate import Unknown
from preflight.model.measure import Observation, TestOutcome, TestResult
from preflight.model.outcome import Outcome

_PASSED = (TestOutcome.PASS, TestOutcome.SLOW, TestOutcome.REFUSED)  # how fast is for the checks to judge
_HELD = "PRB105"  # a device that a killed worker keeps


@dataclass(frozen=True)
class Wanted:
    """`nodes`: as many run the command, None: all that are good. `unknown`: what becomes of hosts, and of the job, of
    which nobody can say that they are good."""

    nodes: int | None = None
    unknown: Unknown = Unknown.CLOSED

    @property
    def least(self) -> int:
        return self.nodes or 1


@dataclass(frozen=True)
class Choice:
    """`take` and `spare`: hosts in their order; `out`: host → why it is left out. `again`: those who failed took part
    in the others' tests, so the rest has to be probed without them. `problem`: why nothing is run, with exit code
    `code`."""

    take: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    out: Mapping[str, str] = field(default_factory=dict)
    again: bool = False
    problem: str = ""
    code: int = 0


def met(observations: Iterable[Observation]) -> set[str]:
    """The hosts that took part in a test with others."""
    ran = (
        seen.test for seen in observations if seen.test.id != ROLL_CALL and seen.test.outcome is not TestOutcome.NOT_RUN
    )
    groups = ({member.host for member in test.members} for test in ran)
    return {host for group in groups if len(group) > 1 for host in group}


def are_proved(hosts: Collection[str], observations: Iterable[Observation]) -> bool:
    """Return whether tests prove these hosts completely: all tests among them alone passed, on every device that was
    tested, and connect them all where several hosts were tested together."""
    ran = [seen.test for seen in observations if seen.test.id != ROLL_CALL]
    own = [test for test in ran if {member.host for member in test.members} <= set(hosts)]
    if any(test.outcome not in _PASSED for test in own):
        return False
    devices = {member.place for test in ran for member in test.members if member.host in hosts}
    if {member.place for test in own for member in test.members} != devices:
        return False
    together = any(len({member.host for member in test.members}) > 1 for test in ran)
    return bool(own) and (_connected(hosts, own) if together else _tested(own) >= set(hosts))


def _tested(tests: Iterable[TestResult]) -> set[str]:
    return {member.host for test in tests for member in test.members}


def _connected(hosts: Collection[str], tests: Sequence[TestResult]) -> bool:
    """Return whether tests lead from any of the hosts to any other."""
    reached = set(sorted(hosts)[:1])
    while more := {host for test in tests if _tested([test]) & reached for host in _tested([test])} - reached:
        reached |= more
    return reached == set(hosts)


def choose(
    hosts: Sequence[str],
    findings: Sequence[Finding],
    left_out: Mapping[str, str],
    wanted: Wanted,
    observations: Sequence[Observation] = (),
) -> Choice:
    """`hosts` were probed; `left_out`: those of them that were not, or not with the others, and why."""
    failures = [finding for finding in findings if finding.outcome is Outcome.FAIL]
    failed = {host: _why(finding) for finding in reversed(failures) for host in named(finding) & set(hosts)}
    out = {host: why for host, why in {**failed, **left_out}.items() if host in hosts}
    if failed.keys() & met(observations):
        return _enough(hosts, out, wanted, again=True)
    if nobody_s := [finding for finding in failures if not named(finding)]:
        return Choice(out=out, problem=f"{_why(nobody_s[0])}; that names no host to leave out", code=1)
    unknown = [finding for finding in findings if finding.outcome is Outcome.UNKNOWN and finding.host not in out]
    if wanted.unknown is Unknown.OPEN:
        return _enough(hosts, out, wanted)
    doubtful = {str(finding.host): f"nobody knows: {_why(finding)}" for finding in unknown if finding.host}
    good = [host for host in hosts if host not in out and host not in doubtful]
    nobody_s = [finding for finding in unknown if finding.host is None]
    if nobody_s and not are_proved(good, observations):
        problem = f"nobody knows whether the hosts are good: {_why(nobody_s[0])}; --unknown open runs it all the same"
        return Choice(out=out, problem=problem, code=3)
    return _enough(hosts, {**out, **doubtful}, wanted, doubtful=len(doubtful))


def named(finding: Finding) -> frozenset[str]:
    """The hosts that a failure makes useless to the command: whom it convicts, and these, who need not be at fault.
    Nobody where it is about what is between hosts, or about a host that only suffers from another one."""
    if finding.check == _HELD:
        return frozenset({str(finding.host)})
    if finding.culprit and finding.culprit.kind == "partition":
        return finding.culprit.hosts  # that are cut off from its largest part
    return convicted(finding) | unheard(finding)


def _why(finding: Finding) -> str:
    """The finding itself stands in the report."""
    return f"{finding.check}, {finding.cause or finding.summary}"


def _enough(
    hosts: Sequence[str], out: Mapping[str, str], wanted: Wanted, *, again: bool = False, doubtful: int = 0
) -> Choice:
    """`doubtful`: of those who are out, as many are only not known to be good."""
    good = tuple(host for host in hosts if host not in out)
    if len(good) < wanted.least:
        are = "1 node is" if len(good) == 1 else f"{len(good)} nodes are"
        problem = f"{are} good, and {wanted.least} are wanted" if wanted.nodes else "no node is good"
        return Choice(out=out, problem=problem, code=3 if len(good) + doubtful >= wanted.least else 1)
    taken = len(good) if again else wanted.nodes
    return Choice(good[:taken], good[taken:] if taken else (), out, again)
