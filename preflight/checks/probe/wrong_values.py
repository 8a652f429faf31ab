"""Checks of values: collectives that bring wrong data, and the devices that send it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from preflight.attribution.culprit_words import Named, by_id, counted, hosts_of, named
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import ProbeResults, Symptom, command, culprit_finding, unproven
from preflight.model.finding import Finding
from preflight.model.measure import Located, Member, Observation, RankView, Scope, TestOutcome
from preflight.model.outcome import Outcome

_NO_COLLECTIVE = ("init", "close", "training_step")  # PRB113 judges the last one
_SHOWN = 5  # results that a finding lists as evidence
_TROUBLE = "wrong data"
_EXPECTED = "0 wrong values"


@dataclass
class _Source:
    """A device with a part that was wrong, by the pattern. In another group it has another rank than `member`."""

    member: Member
    lines: list[str] = field(default_factory=list)  # of the ranks that received wrong values
    observations: list[Observation] = field(default_factory=list)


@cluster_check("PRB102", "Collective results", several=False, optional=("located", "causes"))
def collective_values(
    scribe: All,
    observations: tuple[Observation, ...],
    located: tuple[Located, ...] | None,
    causes: tuple[Finding, ...] | None,
) -> Iterator[Finding]:
    """Why: A device or link that corrupts data raises no error. The loss curve just looks odd, weeks later. The probe
    sends patterns with a known exact result, and every rank compares every element.

    Result: FAIL for wrong values, even if they appear intermittently. The pattern, or tests with other partners,
    identify the device with the wrong part.

    Check manually: No vendor tool compares values. Run the probe again.
      preflight probe

    Fix: Exclude the identified device from jobs. Test it with another partner before you replace it.
    """
    collectives = [observation for observation in observations if _is_collective(observation)]
    if all(map(_is_alone, observations)) and any(map(_has_run, observations)):
        yield scribe.skip("each device was tested alone, so no values were exchanged")
    elif not any(map(_compared_values, collectives)):
        yield scribe.unknown("no test reached the stage that compares values")
    wrong = [observation for observation in collectives if observation.test.outcome is TestOutcome.WRONG_DATA]
    if wrong:
        yield from _wrong_data(ProbeResults(scribe, observations, causes), wrong, located)
    else:
        yield from _leftovers(scribe, collectives)


def _has_run(observation: Observation) -> bool:
    return observation.test.outcome is not TestOutcome.NOT_RUN


def _is_collective(observation: Observation) -> bool:
    """Return whether ranks exchanged values. PRB111 and PRB112 judge the tests of a device alone."""
    return _has_run(observation) and not _is_alone(observation) and observation.test.op not in _NO_COLLECTIVE


def _is_alone(observation: Observation) -> bool:
    return observation.test.scope is Scope.DEVICE


def _compared_values(observation: Observation) -> bool:
    return any(view.stage in ("values", "closed") for view in observation.ranks)


def _leftovers(scribe: All, collectives: Sequence[Observation]) -> Iterator[Finding]:
    """Yield that ranks hold wrong values after another one dropped out of the test, which may be its leftovers."""
    evidence = [_line(observation, view) for observation in collectives for view in _receivers(observation)]
    if evidence:
        yield scribe.unknown(
            "wrong values appeared only in tests that failed or hung (PRB101)",
            evidence=tuple(evidence[:_SHOWN]),
        )


def _wrong_data(
    results: ProbeResults, wrong: Sequence[Observation], located: Sequence[Located] | None
) -> Iterator[Finding]:
    """Yield the findings about tests with wrong data: those without a known source first, then by partners, then by
    pattern."""
    sources, wrong_alone = _sources(wrong), _wrong_alone(results.observations)
    ids = by_id(wrong).keys()
    culprits = [
        culprit
        for culprit in named(located, TestOutcome.WRONG_DATA)
        if ids & set(culprit.one.tests) and not wrong_alone & set(culprit.one.members)
    ]
    yield from _unknown_sources(results.scribe, _unexplained(wrong, wrong_alone.union(sources), culprits))
    for culprit in culprits:
        yield _by_partners(results, culprit, sources.values())
    for place, source in sources.items():
        if place not in wrong_alone and not any(culprit.single and culprit.part([place]) for culprit in culprits):
            yield _by_pattern(results, source)


def _wrong_alone(observations: Iterable[Observation]) -> set[str]:
    """Return the devices that are wrong without a partner, too, so that another check reports them."""
    return {view.member.place for observation in filter(_is_alone, observations) for view in _receivers(observation)}


def _unexplained(
    wrong: Sequence[Observation], source_places: set[str], culprits: Sequence[Named]
) -> Iterator[Observation]:
    for observation in wrong:
        places = {member.place for member in observation.test.members}
        if not source_places & places and not any(culprit.explains(places) for culprit in culprits):
            yield observation


def _by_partners(results: ProbeResults, culprit: Named, sources: Iterable[_Source]) -> Finding:
    lines = [line for source in sources if culprit.part([source.member.place]) for line in source.lines]
    symptom = replace(_exclusion(results.scribe, culprit), details=lines[:_SHOWN])
    return culprit_finding(results, culprit, symptom, Outcome.FAIL)


def _by_pattern(results: ProbeResults, source: _Source) -> Finding:
    member, lines = source.member, source.lines
    culprit = unproven("device", (member.place,), source.observations, TestOutcome.WRONG_DATA)
    return culprit_finding(
        results,
        culprit,
        replace(
            _exclusion(results.scribe, culprit),
            summary=f"{member.host}: device {member.device} (rank {member.rank}) sends wrong data",
            found=f"wrong values in {counted(len(lines), 'result')}",
            details=lines[:_SHOWN],
        ),
    )


def _exclusion(scribe: All, culprit: Named) -> Symptom:
    """Return the symptom of wrong data with the remedy, without summary and details."""
    hosts = hosts_of(culprit.one.members)
    if culprit.kind not in ("device", "host"):
        remedy = (
            "do not use these devices together in a job. Test them in pairs to find the device that sends wrong data"
        )
        return Symptom(_TROUBLE, remedy=remedy, commands=(command(scribe, hosts, Scope.PAIR),), expected=_EXPECTED)
    partner = next((host.name for host in scribe.hosts if host.name not in hosts), "")
    remedy = f"exclude this {culprit.kind} from jobs. Before you replace it, test it in pairs with other devices"
    test = command(scribe, (*hosts, partner) if partner else hosts, Scope.PAIR)
    return Symptom(_TROUBLE, remedy=remedy, commands=(test,), expected=_EXPECTED)


def _receivers(observation: Observation) -> list[RankView]:
    return [view for view in observation.ranks if view.wrong_values]


def _line(observation: Observation, view: RankView) -> str:
    test, wrong = observation.test, counted(view.wrong_values, "wrong value")
    return f"{view.member.place} received {wrong} in {test.op} {test.dtype} (test {test.id}): {view.first_wrong[:120]}"


def _sources(wrong: Iterable[Observation]) -> dict[str, _Source]:
    """Return the devices that sent wrong data, by the patterns."""
    sources: dict[str, _Source] = {}
    for observation in wrong:
        members = {member.rank: member for member in observation.test.members}
        for view in _receivers(observation):
            if view.suspect_rank in members:
                member = members[view.suspect_rank]
                source = sources.setdefault(member.place, _Source(member))
                source.lines.append(_line(observation, view))
                source.observations.append(observation)
    return sources


def _unknown_sources(scribe: All, unexplained: Iterable[Observation]) -> Iterator[Finding]:
    """Yield the wrong values in tests without a known source. Values that are wrong for all ranks identify none."""
    by_receiver: dict[tuple[str, int], list[str]] = defaultdict(list)
    everywhere: list[tuple[int, str]] = []  # ranks of a test, and the result of one of them
    for observation in unexplained:
        receivers = _receivers(observation)
        if len(receivers) == len(observation.ranks) > 1:
            everywhere.append((len(receivers), _line(observation, receivers[0])))
            continue
        for view in receivers:
            by_receiver[view.member.host, view.member.device].append(_line(observation, view))
    if everywhere:
        yield _wrong_everywhere(scribe, everywhere)
    for (host, device), evidence in by_receiver.items():
        yield scribe.bad(
            f"{host}: device {device} received wrong values from an unknown rank",
            host=host,
            device=device,
            expected=_EXPECTED,
            found=f"wrong values in {counted(len(evidence), 'result')}",
            evidence=tuple(evidence[:_SHOWN]),
            remedy="run the probe again. If only this device receives wrong values again, exclude it from jobs. If all "
            "devices do, check what they share",
            commands=(command(scribe, (), Scope.ALL),),
        )


def _wrong_everywhere(scribe: All, results: Sequence[tuple[int, str]]) -> Finding:
    """Return the finding about tests in which all ranks received wrong values, each with its number of ranks."""
    most_ranks = max(ranks for ranks, _ in results)
    evidence = [f"{'both' if ranks == 2 else f'all {ranks}'} ranks, for example: {line}" for ranks, line in results]
    summary = "all ranks of a test received wrong values from an unknown rank"
    compare = "compare the versions of torch, CANN or CUDA, and the driver on all hosts"
    remedy = f"test the devices in pairs, then {compare}"
    commands: tuple[str, ...] = (command(scribe, (), Scope.PAIR),)
    if most_ranks == 2:
        summary = "both ranks of a pair received wrong values, so the test does not show which rank sent them"
        remedy, commands = f"{compare}. Then test both devices with others", ("preflight check --only VER", *commands)
    return scribe.bad(
        summary,
        expected=_EXPECTED,
        found=f"wrong values on all ranks in {counted(len(evidence), 'test')}",
        evidence=tuple(evidence[:_SHOWN]),
        remedy=remedy,
        commands=commands,
    )
