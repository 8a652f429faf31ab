"""Checks of values: collectives that bring wrong data, and the devices that send it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from preflight.attribution.culprits import Named, named
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import tell
from preflight.model.finding import Finding
from preflight.model.measure import Located, Member, Observation, RankView, Scope, TestOutcome

_NO_COLLECTIVE = ("init", "close", "training_step")  # the last is judged by PRB113
_SHOWN = 5  # results that a finding tells as evidence
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

    By hand: no tool of the vendor compares values; preflight probe --inventory hosts.toml

    Mend: take the device that is named out of jobs; run the probe again with another partner before it is replaced
    """
    met = [seen for seen in observations if seen.test.scope is not Scope.DEVICE]  # a device alone: PRB111, PRB112
    collectives = [seen for seen in met if seen.test.op not in _NO_COLLECTIVE]
    done = [seen for seen in collectives if seen.test.outcome is not TestOutcome.NOT_RUN]
    if not met and any(seen.test.outcome is not TestOutcome.NOT_RUN for seen in observations):
        yield all_.skip("each device was tested alone, no two met")
    elif not any(view.stage in ("values", "closed") for seen in done for view in seen.ranks):
        yield all_.unknown("no test came as far as comparing values", host=None)
    # What ranks hold after another fell out of a test may be what that left behind.
    wrong = [seen for seen in done if seen.test.outcome is TestOutcome.WRONG_DATA]
    unfinished = [seen for seen in done if seen not in wrong and _receivers(seen)]
    sources = _sources(wrong)
    alone = {seen.ranks[0].member.place for seen in observations if seen not in met and _receivers(seen)}
    ids = {seen.test.id for seen in wrong}
    objects = [it for it in named(located, TestOutcome.WRONG_DATA) if ids & set(it.one.tests)]
    objects = [it for it in objects if not alone & set(it.one.members)]
    known = {*alone, *(member.place for member in sources)}
    left = [seen for seen in wrong if not known & {m.place for m in seen.test.members}]
    left = [seen for seen in left if not any(it.explains([m.place for m in seen.test.members]) for it in objects)]
    yield from _unknown_sources(all_, left)
    for it in objects:
        details = [word for member, words in sources.items() if it.part([member.place]) for word in words]
        yield tell(
            all_,
            it,
            observations,
            causes,
            trouble=_TROUBLE,
            expected="0 wrong values",
            remedy=_REMEDY,
            report=all_.bad,
            details=details[:_SHOWN],
        )
    for member, words in sources.items():
        if member.place not in alone and not any(it.part([member.place]) for it in objects if it.single):
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
        evidence = [_word(seen, view) for seen in unfinished for view in _receivers(seen)]
        yield all_.unknown(
            "wrong values were seen, but only in tests that failed or hung (PRB101)",
            host=None,
            evidence=tuple(evidence[:_SHOWN]),
        )


def _by_pattern(member: Member, wrong: Sequence[Observation]) -> Named:
    """The device whose part was wrong in some of these tests."""
    ids = tuple(seen.test.id for seen in wrong if member.place in {source.place for source in _sources([seen])})
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
    """Whose data was wrong, by the patterns; a device has another rank in another group, and is told once."""
    first: dict[str, Member] = {}
    sources: dict[Member, list[str]] = defaultdict(list)
    for seen in wrong:
        members = {member.rank: member for member in seen.test.members}
        for view in _receivers(seen):
            if view.suspect_rank in members:
                source = members[view.suspect_rank]
                sources[first.setdefault(source.place, source)].append(_word(seen, view))
    return sources


def _unknown_sources(all_: All, unexplained: Sequence[Observation]) -> Iterator[Finding]:
    """Wrong values in tests of which no member is known as a source. Where they are wrong for all, nobody is named."""
    by_receiver: dict[tuple[str, int], list[str]] = defaultdict(list)
    everywhere: list[str] = []
    for seen in unexplained:
        receivers = _receivers(seen)
        if len(receivers) == len(seen.ranks) > 1:
            everywhere.append(f"all {len(receivers)} ranks; {_word(seen, receivers[0])}")
            continue
        for view in receivers:
            by_receiver[view.member.host, view.member.device].append(_word(seen, view))
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
