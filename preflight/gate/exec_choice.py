"""Choice of the hosts of an allocation that run the command, made from a probe of them. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from preflight.gate.convicted import ROLL_CALL, convicted, unheard
from preflight.model.finding import Finding, with_outcome
from preflight.model.gate import Unknown
from preflight.model.measure import Observation, TestOutcome, TestResult
from preflight.model.outcome import Outcome

_PASSED = (TestOutcome.PASS, TestOutcome.SLOW, TestOutcome.REFUSED)  # the checks judge how fast is enough
_HELD = "PRB105"  # a device that a killed worker still occupies


@dataclass(frozen=True)
class Wanted:
    """Requirements of a choice.

    `nodes`: the number of hosts to run the command, None for all good ones. `unknown`: the policy for hosts, and for a
    job, that are not known to be good.
    """

    nodes: int | None = None
    unknown: Unknown = Unknown.CLOSED

    @property
    def least(self) -> int:
        return self.nodes or 1


@dataclass(frozen=True)
class Choice:
    """Hosts that run the command, or the problem.

    `take` and `spare`: hosts in their order. `out`: host → why it is left out. `again`: hosts that failed took part in
    the others' tests, so the others have to be probed without them. `problem`: why nothing is run, with exit code
    `code`.
    """

    take: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    out: Mapping[str, str] = field(default_factory=dict)
    again: bool = False
    problem: str = ""
    code: int = 0


def met(observations: Iterable[Observation]) -> set[str]:
    """Return the hosts that took part in a test with others."""
    ran = (
        observation.test
        for observation in observations
        if observation.test.id != ROLL_CALL and observation.test.outcome is not TestOutcome.NOT_RUN
    )
    groups = ({member.host for member in test.members} for test in ran)
    return {host for group in groups if len(group) > 1 for host in group}


def are_proved(hosts: Collection[str], observations: Iterable[Observation]) -> bool:
    """Return whether tests prove these hosts completely.

    All tests among them alone have passed, on every device that was tested. If several hosts were tested together,
    these tests connect them all.
    """
    tests = [observation.test for observation in observations if observation.test.id != ROLL_CALL]
    own_tests = [test for test in tests if _tested([test]) <= set(hosts)]
    if not own_tests or any(test.outcome not in _PASSED for test in own_tests):
        return False
    if _devices(own_tests, hosts) != _devices(tests, hosts):
        return False
    together = any(len(_tested([test])) > 1 for test in tests)
    return _connected(hosts, own_tests) if together else _tested(own_tests) >= set(hosts)


def _tested(tests: Iterable[TestResult]) -> set[str]:
    return {member.host for test in tests for member in test.members}


def _devices(tests: Iterable[TestResult], hosts: Collection[str]) -> set[str]:
    """Return the places of the devices of these hosts that took part."""
    return {member.place for test in tests for member in test.members if member.host in hosts}


def _connected(hosts: Collection[str], tests: Sequence[TestResult]) -> bool:
    """Return whether tests lead from any of the hosts to any other."""
    reached = set(sorted(hosts)[:1])
    while next_hosts := {host for test in tests if _tested([test]) & reached for host in _tested([test])} - reached:
        reached |= next_hosts
    return reached == set(hosts)


def choose(
    hosts: Sequence[str],
    findings: Sequence[Finding],
    left_out: Mapping[str, str],
    wanted: Wanted,
    observations: Sequence[Observation] = (),
) -> Choice:
    """Return the hosts that run the command.

    `hosts` were probed. `left_out`: those of them that were not, or not with the others, and why.
    """
    failures = with_outcome(findings, Outcome.FAIL)
    failed = {host: _why(finding) for finding in reversed(failures) for host in useless_hosts(finding)}
    out = {host: why for host, why in {**failed, **left_out}.items() if host in hosts}
    if failed.keys() & set(hosts) & met(observations):
        return _enough(hosts, out, wanted, again=True)
    if unattributed := [finding for finding in failures if not useless_hosts(finding)]:
        return Choice(out=out, problem=f"{_why(unattributed[0])}. preflight cannot tell which host to exclude", code=1)
    if wanted.unknown is Unknown.OPEN:
        return _enough(hosts, out, wanted)
    unknown = [finding for finding in with_outcome(findings, Outcome.UNKNOWN) if finding.host not in out]
    return _without_doubtful(hosts, unknown, out, wanted, observations)


def _without_doubtful(
    hosts: Sequence[str],
    unknown: Sequence[Finding],
    out: Mapping[str, str],
    wanted: Wanted,
    observations: Sequence[Observation],
) -> Choice:
    """Choose from the hosts of which nothing is unknown.

    Something that is unknown of no host in particular counts, unless tests prove these hosts.
    """
    doubtful = {str(finding.host): f"state unknown: {_why(finding)}" for finding in unknown if finding.host}
    good = [host for host in hosts if host not in {*out, *doubtful}]
    unattributed = next((finding for finding in unknown if finding.host is None), None)
    if unattributed and not are_proved(good, observations):
        problem = f"the hosts' state is unknown: {_why(unattributed)}. Use --unknown open to run the command anyway"
        return Choice(out=out, problem=problem, code=3)
    return _enough(hosts, {**out, **doubtful}, wanted, doubtful=len(doubtful))


def useless_hosts(finding: Finding) -> frozenset[str]:
    """Return the hosts that a failure makes useless to the command: culprits, and others that need not be at fault.

    Empty for a failure between hosts, and for a host that only suffers from another.
    """
    if finding.check == _HELD:
        return frozenset({str(finding.host)})
    if finding.culprit and finding.culprit.kind == "partition":
        return finding.culprit.hosts  # those that are cut off from its largest part
    return convicted(finding) | unheard(finding)


def _why(finding: Finding) -> str:
    """Return the check and the cause of a finding; the report has the finding itself."""
    return f"{finding.check}, {finding.cause or finding.summary}"


def _enough(
    hosts: Sequence[str], out: Mapping[str, str], wanted: Wanted, *, again: bool = False, doubtful: int = 0
) -> Choice:
    """Choose from the hosts that are not `out`. `doubtful`: the number of those that are out only because of doubt."""
    good = tuple(host for host in hosts if host not in out)
    if len(good) < wanted.least:
        are = "1 node is" if len(good) == 1 else f"{len(good)} nodes are"
        problem = f"{are} healthy, but {wanted.least} are needed" if wanted.nodes else "no node is healthy"
        return Choice(out=out, problem=problem, code=3 if len(good) + doubtful >= wanted.least else 1)
    count = len(good) if again else wanted.nodes
    return Choice(good[:count], good[count:] if count else (), out, again)
