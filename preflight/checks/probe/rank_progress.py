"""Checks of rank progress: hung ranks, the stage they stopped at, and the ranks that waited for them."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from preflight.attribution import short_budget
from preflight.attribution.causes import ON_THE_WIRE
from preflight.attribution.culprit_words import Named, by_id, named, partners
from preflight.attribution.culprit_words import evidence as with_partners
from preflight.attribution.rank_positions import HANDS, device_ranges, evidence, first_line, found_at, waiting
from preflight.attribution.stopped_ranks import (
    TROUBLE,
    Behind,
    Stop,
    by_itself,
    late,
    nearest,
    of_its_tests,
    others_do_well,
    passed_later,
)
from preflight.checks.engine.registry import All, cluster_check
from preflight.checks.shared.culprit_findings import tell
from preflight.facts.error_meanings import Meaning, meaning
from preflight.facts.hung_rank_causes import usual
from preflight.model.finding import Finding
from preflight.model.measure import End, Located, Observation, RankView, Scope, TestOutcome, TimeLimit, kept_waiting

_LOST = "was lost"
_SHOWN = 8  # hangs that one finding lists as evidence
_MANY = 3  # pairs without a known culprit; more of them are one finding


@cluster_check(
    "PRB101", "Every rank arrives at every stage of the probe", several=False, optional=("located", "causes", "limit")
)
def all_arrive(
    all_: All,
    observations: tuple[Observation, ...],
    located: tuple[Located, ...] | None,
    causes: tuple[Finding, ...] | None,
    limit: TimeLimit | None = None,
) -> Iterator[Finding]:
    """Why: a collective needs every rank; one that is missing makes all others wait until a time-out, whose message
    names whoever waited. The probe asks each rank how far it came, so those that stayed behind are named, with the
    last stage they got through: spawned, python, torch, backend, device, store, peers,
    communicator, warm-up, iteration, values, closed. Where all came equally far, tests with other partners tell: a
    device or host that fails with two which are well elsewhere, a link, a rail, groups that do not reach each other, or
    how many it takes. What facts know of those is the cause, and what else failed because of them is evidence.

    Check manually: the job's log of the rank that is named, not of the one that complained

    Fix: by the stage: before device: software on the host; store: route, firewall or port of the first rank;
    communicator: the device's address, link and TLS switch; iteration: the fabric
    """
    if not observations:
        yield all_.unknown("the probe brought no results", host=None)
    cut_views = {
        view.member.host: view for observation in observations for view in observation.ranks if _not_waited_for(view)
    }
    for host, view in cut_views.items():
        yield all_.unknown(
            f"{host}: it came as far as {view.stage} in the time that there was for it: {view.error}",
            host=host,
            evidence=view.logs,
            remedy="probe without --budget, or with more: it has a minute for this then",
        )
    not_run = [observation for observation in observations if observation.test.outcome is TestOutcome.NOT_RUN]
    skipped_tests = [observation.test.id for observation in not_run if not any(map(_not_waited_for, observation.ranks))]
    # Tests may be skipped because of failed ones, which are findings themselves.
    if skipped_tests and not any(observation.test.outcome in TROUBLE for observation in observations):
        spent = f": the budget of {limit.budget:.0f} s was spent; {limit.enough:.0f} s would do" if limit else ""
        yield all_.unknown(
            f"{len(skipped_tests)} tests did not run{spent}",
            host=None,
            remedy=short_budget.remedy(limit) if limit else "",
            evidence=(f"tests {', '.join(skipped_tests[:8])}",),
        )
    objects = None if located is None else named(located, *TROUBLE)
    other_tests = {test for fault in located or () if fault.outcome not in TROUBLE for test in fault.tests}
    slow = named(located, TestOutcome.SLOW)
    yield from _stopped(_HangInputs(all_, observations, causes, limit), objects, slow, other_tests)


def _not_waited_for(view: RankView) -> bool:
    """Return whether the time ran out while the rank was busy with a known step. Only the roll call reports the
    step."""
    return view.end is End.CUT and bool(view.error)


@dataclass(frozen=True)
class _HangInputs:
    """The common inputs of all findings of a run."""

    all_: All
    observations: Sequence[Observation]
    causes: Sequence[Finding] | None
    limit: TimeLimit | None = None


@dataclass(frozen=True)
class _Suspect:
    """An object that may be at fault for hung ranks.

    `it`: the object, which stayed behind like `own`. `more`: other tests in which it stayed behind, or in which
    partners identify it."""

    it: Named
    own: Behind
    more: tuple[str, ...] = ()

    def explains(self, stop: Stop) -> bool:
        return self.it.explains(stop.places) if self.it.proven else self.own.explains(stop)


def _stopped(
    run: _HangInputs, located: Sequence[Named] | None, slow: Sequence[Named], told: AbstractSet[str]
) -> Iterator[Finding]:
    """Yield the findings about hosts and devices, then about links between them, then about stops without a known
    culprit.

    `slow`: slow objects, which may be too slow for a deadline. `told`: ids of tests that another check attributes to an
    object, for wrong data or slowness."""
    behind, stops = late(run.observations, located)
    objects = located or ()
    unsure = [own for own in behind if short_budget.is_slow_or_hung_alone(own, run.observations, run.limit)]
    behind = [own for own in behind if own not in unsure]
    suspects = _suspects(run, behind, [fault for fault in objects if fault.single])
    on_the_wire: set[str] = set()  # hosts
    for suspect in suspects:
        follows = [stop.told for stop in stops if suspect.explains(stop) and stop.seen[0] not in suspect.own.seen]
        finding = _blamed(run, suspect, follows)
        yield finding
        for cause in run.causes or ():
            if cause.check in ON_THE_WIRE and finding.cause.endswith(f"({cause.check})"):
                on_the_wire |= {place.partition("/")[0] for place in (cause.host, cause.peer) if place}
    stops_left = [stop for stop in stops if not any(suspect.explains(stop) for suspect in suspects)]
    stops_left = [
        stop for stop in stops_left if not (stop.moving and any(fault.explains(stop.places) for fault in slow))
    ]
    # Objects that were found by comparison with tests that passed.
    compared = [fault for fault in objects if fault.kind not in ("system", "scale")]
    slow_or_hung = [
        stop
        for stop in stops_left
        if short_budget.is_slow_or_hung(stop, run.limit) and not any(fault.explains(stop.places) for fault in compared)
    ]
    yield from _too_short(run, unsure, slow_or_hung)
    stops_left = [stop for stop in stops_left if stop not in slow_or_hung]
    suspect_places = {place for suspect in suspects for place in suspect.own.places}
    for fault in objects:
        if fault.kind in ("system", "scale") and slow_or_hung and not stops_left:
            continue  # its evidence is the hangs that may only be slow
        known_by = (
            fault.part(suspect_places)
            if fault.kind in ("host", "device")
            else fault.kind == "system" and suspects and not stops_left
        )
        # Groups of hosts fail even without the device, because its port still answers.
        if not known_by and not (fault.kind in ("link", "scale") and on_the_wire & set(fault.one.members)):
            yield _between(run, fault, [stop for stop in stops_left if fault.explains(stop.places)])
    stops_left = [
        stop
        for stop in stops_left
        if not any(fault.explains(stop.places) for fault in objects) and not told & set(stop.ids)
    ]
    nearest_ = [
        (stop, [neighbour.told for neighbour in neighbours])
        for stop, neighbours in nearest(stops_left, run.observations)
    ]
    pairs = [stop for stop, _ in nearest_ if len(stop.members) == 2 and not passed_later(stop, run.observations)]
    if len(pairs) > _MANY:
        yield _many_pairs(run, pairs)
    for stop, neighbours in nearest_:
        if len(pairs) <= _MANY or stop not in pairs:
            yield from _all_stopped(run, stop, neighbours)


def _too_short(run: _HangInputs, alone: Sequence[Behind], stops: Sequence[Stop]) -> Iterator[Finding]:
    """Yield one finding for all stops that may be hangs, or only slow."""
    lines = [f"{_tests(own)}: {', '.join(sorted(own.places))} stopped after {own.stage}" for own in alone]
    lines += [stop.told for stop in stops]
    if run.limit and lines:
        yield run.all_.unknown(
            short_budget.sentence(run.limit, lines[0]),
            host=None,
            remedy=short_budget.remedy(run.limit),
            evidence=tuple(lines[:_SHOWN]),
        )


def _suspects(run: _HangInputs, behind: Sequence[Behind], convicted: Sequence[Named]) -> list[_Suspect]:
    """Return one suspect an object. The ranks that stayed behind and the object that partners identify may be the
    same."""
    suspects: list[_Suspect] = []
    behind_left = list(behind)
    for fault in convicted:
        matching = [straggler for straggler in behind_left if fault.part(straggler.places) == straggler.places]
        wider = [straggler for straggler in behind_left if straggler not in matching and fault.part(straggler.places)]
        own = matching[0] if matching else of_its_tests(fault, run.observations)
        if own and not wider:
            suspects.append(_Suspect(fault, own, more=tuple(map(_tests, matching[1:]))))
        behind_left = [straggler for straggler in behind_left if straggler not in matching]
    for straggler in behind_left:
        enclosing = [fault.one for fault in convicted if fault.part(straggler.places)]
        partner_lines = [line for fault in enclosing for line in with_partners(fault, by_id(run.observations))]
        suspects.append(_Suspect(_by_stage(straggler), straggler, more=tuple(partner_lines)))
    return suspects


def _by_stage(own: Behind) -> Named:
    """Return the host if all its ranks of the test stayed behind, if it was lost, or if no stage began; else its
    devices."""
    first, host = own.seen[0], own.views[0].member.host
    whole = len(own.views) > 1 and len(own.views) == sum(view.member.host == host for view in first.ranks)
    kind = "host" if whole or own.stage == "none" or own.views[0].end is End.LOST else "device"
    members = (host,) if kind == "host" else tuple(sorted(own.places))
    ids = tuple(observation.test.id for observation in own.seen)
    return Named(Located(kind, members, ids, first.test.outcome), proven=False)


def _tests(own: Behind) -> str:
    return f"tests {', '.join(observation.test.id for observation in own.seen[:8])}"


def _blamed(run: _HangInputs, suspect: _Suspect, follows: Iterable[str]) -> Finding:
    own, first, views, stage = suspect.own, suspect.own.seen[0], suspect.own.views, suspect.own.stage
    other_views = [view for view in first.ranks if view.member not in own.members and view not in kept_waiting(first)]
    partner_places = partners(suspect.it.one, by_id(run.observations)) if suspect.it.proven else []
    apart = (
        f"so with {' and '.join(partner_places[:3])}, which do well with others"
        if len(partner_places) > 1
        else waiting(first, other_views)
    )
    how, member = _how(views[0]), views[0].member
    if stage == "none" or how.startswith(_LOST):
        ranks = len(own.places | {view.member.place for view in first.ranks if view.member.host == member.host})
        its_ranks = "its rank" if ranks == 1 else f"its {ranks} ranks"
        summary = f"{member.host}: {its_ranks} came as far as {stage}, and the host {how}"
    elif len(views) == 1 and suspect.it.kind == "device":
        # The rank within a pair is not that of a job.
        rank = "" if first.test.scope is Scope.PAIR else f" (rank {member.rank})"
        summary = f"{member.host}: device {member.device}{rank} came as far as {stage} and {how}"
    else:
        word = "rank" if len(views) == 1 else "ranks"
        summary = f"{member.host}: {len(views)} {word} ({device_ranges(views)}) came as far as {stage} and {how}"
    errors = [*(view.error for view in views), *(line for view in views for line in view.logs)]
    error_meaning = _meaning(run.all_, first, stage, errors, views[0].state)
    return tell(
        run.all_,
        suspect.it,
        run.observations,
        run.causes,
        summary="; ".join(filter(None, (summary, apart))),
        trouble=_trouble(views[0]),
        likely=error_meaning.cause,
        remedy=error_meaning.remedy,
        details=(
            *evidence(run.all_.cluster, first, views),
            _tests(own),
            *suspect.more,
            *follows,
            *others_do_well(suspect.it, run.observations),
        ),
        expected="closed",
        found=_found(first, stage),
        alone=by_itself(views[0]) and views[0].state != "D",
    )


def _between(run: _HangInputs, it: Named, follows: Sequence[Stop]) -> Finding:
    """Return the finding about a link, a rail, groups … or about an object that fails intermittently."""
    failures = [
        observation
        for observation in run.observations
        if observation.test.id in it.one.tests and observation.test.outcome in TROUBLE
    ]
    if not failures:
        return tell(run.all_, it, run.observations, run.causes, trouble="tests fail")
    first, stage = failures[0], failures[0].test.stage
    error_meaning = _meaning(
        run.all_, first, stage, [view.error for observation in failures for view in observation.ranks if view.error]
    )
    return tell(
        run.all_,
        it,
        run.observations,
        run.causes,
        trouble=_trouble(first.ranks[0]),
        likely=error_meaning.cause,
        remedy=error_meaning.remedy,
        expected="closed",
        found=stage,
        details=(
            *evidence(run.all_.cluster, first, first.ranks),
            *(
                stop.told
                for stop in follows
                if not {observation.test.id for observation in failures}.issuperset(stop.ids)
            ),
        ),
    )


def _many_pairs(run: _HangInputs, stops: Sequence[Stop]) -> Finding:
    """Return the finding about so many pairs that their links are not the cause. It reports only their common
    properties."""
    first = stops[0]
    errors = [view.error for stop in stops for observation in stop.seen for view in observation.ranks if view.error]
    error_meaning = _meaning(run.all_, first.seen[0], first.stage, errors)
    members = tuple(sorted({place for stop in stops for place in stop.places}))
    ids = tuple(id_ for stop in stops for id_ in stop.ids)
    return tell(
        run.all_,
        Named(Located("group", members, ids, first.seen[0].test.outcome), proven=False),
        run.observations,
        run.causes,
        summary=f"{len(stops)} pairs of devices stopped together, and nobody can be named",
        trouble=_trouble(first.seen[0].ranks[0]),
        likely=error_meaning.cause,
        remedy=error_meaning.remedy,
        expected="closed",
        found=", ".join(dict.fromkeys(stop.stage for stop in stops)),
        details=[f"{' with '.join(sorted(stop.places))}: {stop.told}" for stop in stops],
    )


def _all_stopped(run: _HangInputs, stop: Stop, others: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings about a group that stopped together.

    A pair names its link, and so both its hosts, each in a finding. Neither is proven at fault, and neither is ruled
    out, unless facts decide between them, or the pair passed when it was tried again."""
    all_, first, stage = run.all_, stop.seen[0], stop.stage
    errors = [view.error for observation in stop.seen for view in observation.ranks if view.error]
    error_meaning = _meaning(all_, first, stage, errors)
    details = (*evidence(all_.cluster, first, first.ranks), f"tests {', '.join(stop.ids[:8])}", *others)
    trouble = _trouble(first.ranks[0])
    later = passed_later(stop, run.observations)
    once = f", and did well when tried again ({later})" if later else ""
    if len(stop.members) == 2:
        findings = [
            tell(
                all_,
                _group("link", stop, (member.place, peer.place)),
                run.observations,
                run.causes,
                summary=f"{member.host}: device {member.device} and {peer.place} stopped together after {stage}{once}",
                likely=error_meaning.cause or "either end, or the path between them",
                remedy=error_meaning.remedy,
                details=details,
                report=all_.warn if later else all_.bad,
                trouble=trouble,
                expected="closed",
                found=stage,
            )
            for member, peer in (stop.members, stop.members[::-1])
        ]
        attributed = [
            finding
            for finding in findings
            if finding.culprit and {finding.host, _place(finding)} & set(finding.culprit.members)
        ]
        on_two_hosts = len({member.host for member in stop.members}) == 2 and not later
        yield from attributed or (findings if on_two_hosts else findings[:1])
        return
    common = "common to all ranks"
    yield tell(
        all_,
        _group("group", stop, tuple(sorted(stop.places))),
        run.observations,
        run.causes,
        summary=f"all {len(stop.members)} ranks stopped after {stage}: they waited for one another "
        f"{found_at(first.ranks[0])}{once}",
        likely=f"{common}: {error_meaning.cause}" if error_meaning.cause else common,
        remedy=error_meaning.remedy,
        details=details,
        trouble=trouble,
        expected="closed",
        found=stage,
    )


def _place(finding: Finding) -> str:
    return f"{finding.host}/{finding.device}"


def _group(kind: str, stop: Stop, members: tuple[str, ...]) -> Named:
    return Named(Located(kind, members, stop.ids, stop.seen[0].test.outcome), proven=False)


def _trouble(view: RankView) -> str:
    """Return a class of cause, for programs."""
    endings = {
        End.LOST: "host lost",
        End.KILLED: "killed",
        End.EXITED: "left without a word",
        End.UNBORN: "never started",
    }
    return endings.get(view.end or End.OVERDUE, f"{'failed' if view.error else 'stuck'} {found_at(view)}")


def _found(seen: Observation, stage: str) -> str:
    """Return the stage; before ranks meet, also the place where they are to meet."""
    return f"{stage}, and no way to {seen.meeting.place}" if stage == "device" and seen.meeting else stage


def _meaning(all_: All, seen: Observation, stage: str, errors: Iterable[str], state: str = "") -> Meaning:
    """Return the meaning of a known error, else that of the process's state or of the stage alone."""
    backend = seen.meeting.backend if seen.meeting else all_.cluster.probe.backend
    return next(filter(None, map(meaning, errors)), None) or usual(stage, backend, state)


def _how(view: RankView) -> str:
    """Return how the rank ended, in words, with the first line of its error."""
    error = first_line(view)
    how = {
        End.EXITED: "left without a word",
        End.KILLED: "was killed by a signal",
        End.LOST: _LOST,
        End.UNBORN: "was never started",
    }.get(view.end or End.OVERDUE, "died" if error else "did not go on")
    state = f" (process state {view.state}{HANDS.get(view.state, '')})" if view.stands_still else ""
    return how + state + (f": {error}" if error else "")
