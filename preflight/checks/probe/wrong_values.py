"""Checks of values: collectives that bring wrong data, and the devices that send it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from preflight.attribution.culprit_words import Named, named
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import tell
from preflight.model.finding import Finding
from preflight.model.measure import Located, Member, Observation, RankView, Scope, TestOutcome

_NO_COLLECTIVE = ("init", "close", "training_step")  # PRB113 judges the last one
_SHOWN = 5  # results that a finding lists as evidence
_TROUBLE = "wrong data"
_REMEDY = "take the device out of jobs, then probe it with another partner"


@cluster_check("PRB102", "Every value that a collective brings is exact", several=False, optional=("located", "causes"))
def values_exact(
    all_: All,
    observations: tuple[Observation, ...],
    located: tuple[Located, ...] | None,
    causes: tuple[Finding, ...] | None,
) -> Iterator[Finding]:
    """Why: a device or link that changes bits brings no error; the loss curve just looks odd, weeks later. The probe
    sends patterns whose exact result is known on every rank, and compares every element. Whose part was wrong is told
    by the pattern, or by tests with other partners. One that is wrong now and then is a failure, too.

    Check manually: no tool of the vendor compares values; preflight probe --inventory hosts.toml

    Fix: take the device that is named out of jobs; run the probe again with another partner before it is replaced
    """
    # PRB111 and PRB112 judge the tests of a device alone.
    with_partners = [observation for observation in observations if observation.test.scope is not Scope.DEVICE]
    collectives = [observation for observation in with_partners if observation.test.op not in _NO_COLLECTIVE]
    finished = [observation for observation in collectives if observation.test.outcome is not TestOutcome.NOT_RUN]
    if not with_partners and any(observation.test.outcome is not TestOutcome.NOT_RUN for observation in observations):
        yield all_.skip("each device was tested alone, no two met")
    elif not any(view.stage in ("values", "closed") for observation in finished for view in observation.ranks):
        yield all_.unknown("no test came as far as comparing values", host=None)
    # Values that ranks hold after another one dropped out of a test may be its leftovers.
    wrong = [observation for observation in finished if observation.test.outcome is TestOutcome.WRONG_DATA]
    unfinished = [observation for observation in finished if observation not in wrong and _receivers(observation)]
    sources = _sources(wrong)
    alone = {
        observation.ranks[0].member.place
        for observation in observations
        if observation not in with_partners and _receivers(observation)
    }
    ids = {observation.test.id for observation in wrong}
    objects = [fault for fault in named(located, TestOutcome.WRONG_DATA) if ids & set(fault.one.tests)]
    objects = [fault for fault in objects if not alone & set(fault.one.members)]
    source_places = {*alone, *(member.place for member in sources)}
    unexplained = [
        observation for observation in wrong if not source_places & {m.place for m in observation.test.members}
    ]
    unexplained = [
        observation
        for observation in unexplained
        if not any(fault.explains([m.place for m in observation.test.members]) for fault in objects)
    ]
    yield from _unknown_sources(all_, unexplained)
    for fault in objects:
        details = [word for member, words in sources.items() if fault.part([member.place]) for word in words]
        yield tell(
            all_,
            fault,
            observations,
            causes,
            trouble=_TROUBLE,
            expected="0 wrong values",
            remedy=_REMEDY,
            report=all_.bad,
            details=details[:_SHOWN],
        )
    for member, words in sources.items():
        if member.place not in alone and not any(fault.part([member.place]) for fault in objects if fault.single):
            yield tell(
                all_,
                _by_pattern(member, wrong),
                observations,
                causes,
                trouble=_TROUBLE,
                remedy=_REMEDY,
                summary=f"{member.host}: device {member.device} (rank {member.rank}): its data arrives wrong",
                expected="0 wrong values",
                found=f"wrong in {len(words)} results",
                details=words[:_SHOWN],
            )
    if unfinished and not wrong:
        evidence = [_word(observation, view) for observation in unfinished for view in _receivers(observation)]
        yield all_.unknown(
            "wrong values were seen, but only in tests that failed or hung (PRB101)",
            host=None,
            evidence=tuple(evidence[:_SHOWN]),
        )


def _by_pattern(member: Member, wrong: Sequence[Observation]) -> Named:
    """Return the device with a part that was wrong in some of these tests."""
    ids = tuple(
        observation.test.id
        for observation in wrong
        if member.place in {source.place for source in _sources([observation])}
    )
    return Named(Located("device", (member.place,), ids, TestOutcome.WRONG_DATA), proven=False)


def _receivers(seen: Observation) -> list[RankView]:
    return [view for view in seen.ranks if view.wrong_values]


def _word(seen: Observation, view: RankView) -> str:
    test = seen.test
    return (
        f"{view.member.place} saw {view.wrong_values} wrong values in {test.op} {test.dtype} ({test.id}): "
        f"{view.first_wrong[:120]}"
    )


def _sources(wrong: Sequence[Observation]) -> dict[Member, list[str]]:
    """Return the devices that sent wrong data, by the patterns.

    A device has another rank in another group, and is listed once."""
    first: dict[str, Member] = {}
    sources: dict[Member, list[str]] = defaultdict(list)
    for observation in wrong:
        members = {member.rank: member for member in observation.test.members}
        for view in _receivers(observation):
            if view.suspect_rank in members:
                source = members[view.suspect_rank]
                sources[first.setdefault(source.place, source)].append(_word(observation, view))
    return sources


def _unknown_sources(all_: All, unexplained: Sequence[Observation]) -> Iterator[Finding]:
    """Yield the wrong values in tests without a known source. Values that are wrong for all ranks identify none."""
    by_receiver: dict[tuple[str, int], list[str]] = defaultdict(list)
    everywhere: list[str] = []
    for observation in unexplained:
        receivers = _receivers(observation)
        if len(receivers) == len(observation.ranks) > 1:
            everywhere.append(f"all {len(receivers)} ranks; {_word(observation, receivers[0])}")
            continue
        for view in receivers:
            by_receiver[view.member.host, view.member.device].append(_word(observation, view))
    if everywhere:
        yield all_.bad(
            "all ranks of a test received wrong values, of an unknown one",
            host=None,
            expected="0 wrong values",
            found=f"wrong for all in {len(everywhere)} tests",
            evidence=tuple(everywhere[:_SHOWN]),
            remedy="see who is wrong in pairs: preflight probe --scope pair; compare versions on all hosts",
        )
    for (host, device), evidence in by_receiver.items():
        yield all_.bad(
            f"{host}: device {device} received wrong values of an unknown rank",
            host=host,
            device=device,
            expected="0 wrong values",
            found=f"wrong in {len(evidence)} results",
            evidence=tuple(evidence[:_SHOWN]),
            remedy="probe again: a device that is alone in this receives wrong; if all are, look at what they share",
        )
