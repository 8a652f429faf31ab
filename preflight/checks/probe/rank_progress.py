"""Checks of rank progress: hung ranks, the stage they stopped at, and the ranks that waited for them."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from preflight.attribution import short_budget
from preflight.attribution.causes import ON_THE_WIRE
from preflight.attribution.culprits import Named, by_id, named, partners
from preflight.attribution.culprits import evidence as with_partners
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
from preflight.facts.error_catalogue import Meaning, meaning
from preflight.facts.hung_rank_causes import usual
from preflight.model.finding import Finding
from preflight.model.measure import End, Located, Observation, RankView, Scope, TestOutcome, TimeLimit, kept_waiting

_LOST = "was lost"
_SHOWN = 8  # hangs that one finding tells as evidence
_MANY = 3  # pairs of which nobody is named; more of them are one finding


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

    By hand: the job's log of the rank that is named, not of the one that complained

    Mend: by the stage: before device: software on the host; store: route, firewall or port of the first rank;
    communicator: the device's address, link and TLS switch; iteration: the fabric
    """
    if not observations:
        yield all_.unknown("the probe brought no results", host=None)
    unheard = {view.member.host: view for seen in observations for view in seen.ranks if _not_waited_for(view)}
    for host, view in unheard.items():
        yield all_.unknown(
            f"{host}: it came as far as {view.stage} in the time that there was for it: {view.error}",
            host=host,
            evidence=view.logs,
            remedy="probe without --budget, or with more: it has a minute for this then",
        )
    not_run = [seen for seen in observations if seen.test.outcome is TestOutcome.NOT_RUN]
    left = [seen.test.id for seen in not_run if not any(map(_not_waited_for, seen.ranks))]
    if left and not any(seen.test.outcome in TROUBLE for seen in observations):  # else they follow from those
        spent = f": the budget of {limit.budget:.0f} s was spent; {limit.enough:.0f} s would do" if limit else ""
        yield all_.unknown(
            f"{len(left)} tests did not run{spent}",
            host=None,
            remedy=short_budget.remedy(limit) if limit else "",
            evidence=(f"tests {', '.join(left[:8])}",),
        )
    objects = None if located is None else named(located, *TROUBLE)
    others = {test for one in located or () if one.outcome not in TROUBLE for test in one.tests}
    slow = named(located, TestOutcome.SLOW)
    yield from _stopped(_HangInputs(all_, observations, causes, limit), objects, slow, others)


def _not_waited_for(view: RankView) -> bool:
    """In the roll-call alone it is known what a rank was at when the time was spent."""
    return view.end is End.CUT and bool(view.error)


@dataclass(frozen=True)
class _HangInputs:
    """What all findings of a run are told from."""

    all_: All
    observations: Sequence[Observation]
    causes: Sequence[Finding] | None
    limit: TimeLimit | None = None


@dataclass(frozen=True)
class _Suspect:
    """`it` stayed behind like `own`; `more`: where else it did, or was convicted by partners."""

    it: Named
    own: Behind
    more: tuple[str, ...] = ()

    def explains(self, stop: Stop) -> bool:
        return self.it.explains(stop.places) if self.it.proven else self.own.explains(stop)


def _stopped(
    run: _HangInputs, located: Sequence[Named] | None, slow: Sequence[Named], told: AbstractSet[str]
) -> Iterator[Finding]:
    """Hosts and devices first, then what lies between them, then what nobody is named for. `slow`: who is named for
    that, and may be too slow for a deadline. `told`: ids of tests that speak against somebody whom another check names,
    for wrong data or because he is slow."""
    behind, stops = late(run.observations, located)
    objects = located or ()
    unsure = [own for own in behind if short_budget.is_slow_or_hung_alone(own, run.observations, run.limit)]
    behind = [own for own in behind if own not in unsure]
    suspects = _suspects(run, behind, [it for it in objects if it.single])
    on_the_wire: set[str] = set()  # hosts
    for suspect in suspects:
        follows = [stop.told for stop in stops if suspect.explains(stop) and stop.seen[0] not in suspect.own.seen]
        blamed = _blamed(run, suspect, follows)
        yield blamed
        for cause in run.causes or ():
            if cause.check in ON_THE_WIRE and blamed.cause.endswith(f"({cause.check})"):
                on_the_wire |= {place.partition("/")[0] for place in (cause.host, cause.peer) if place}
    left = [stop for stop in stops if not any(suspect.explains(stop) for suspect in suspects)]
    left = [stop for stop in left if not (stop.moving and any(it.explains(stop.places) for it in slow))]
    compared = [it for it in objects if it.kind not in ("system", "scale")]  # with tests that passed
    slow_or_hung = [
        stop
        for stop in left
        if short_budget.is_slow_or_hung(stop, run.limit) and not any(it.explains(stop.places) for it in compared)
    ]
    yield from _too_short(run, unsure, slow_or_hung)
    left = [stop for stop in left if stop not in slow_or_hung]
    known = {place for suspect in suspects for place in suspect.own.places}
    for it in objects:
        if it.kind in ("system", "scale") and slow_or_hung and not left:
            continue  # what speaks for it are the hangs of which that is not known
        known_by = it.part(known) if it.kind in ("host", "device") else it.kind == "system" and suspects and not left
        # Groups of hosts that fail without the device, whose port answers all the same.
        if not known_by and not (it.kind in ("link", "scale") and on_the_wire & set(it.one.members)):
            yield _between(run, it, [stop for stop in left if it.explains(stop.places)])
    left = [stop for stop in left if not any(it.explains(stop.places) for it in objects) and not told & set(stop.ids)]
    nearest_ = [(stop, [other.told for other in others]) for stop, others in nearest(left, run.observations)]
    pairs = [stop for stop, _ in nearest_ if len(stop.members) == 2 and not passed_later(stop, run.observations)]
    if len(pairs) > _MANY:
        yield _many_pairs(run, pairs)
    for stop, others in nearest_:
        if len(pairs) <= _MANY or stop not in pairs:
            yield from _all_stopped(run, stop, others)


def _too_short(run: _HangInputs, alone: Sequence[Behind], stops: Sequence[Stop]) -> Iterator[Finding]:
    """Yield one finding for all hangs of which nobody can tell whether they are any."""
    told = [f"{_tests(own)}: {', '.join(sorted(own.places))} stopped after {own.stage}" for own in alone]
    told += [stop.told for stop in stops]
    if run.limit and told:
        yield run.all_.unknown(
            short_budget.sentence(run.limit, told[0]),
            host=None,
            remedy=short_budget.remedy(run.limit),
            evidence=tuple(told[:_SHOWN]),
        )


def _suspects(run: _HangInputs, behind: Sequence[Behind], convicted: Sequence[Named]) -> list[_Suspect]:
    """One an object: who stayed behind and who is convicted by partners may be the same."""
    found: list[_Suspect] = []
    left = list(behind)
    for it in convicted:
        same = [one for one in left if it.part(one.places) == one.places]
        wider = [one for one in left if one not in same and it.part(one.places)]
        own = same[0] if same else of_its_tests(it, run.observations)
        if own and not wider:
            found.append(_Suspect(it, own, more=tuple(map(_tests, same[1:]))))
        left = [one for one in left if one not in same]
    for one in left:
        inside = [it.one for it in convicted if it.part(one.places)]
        more = [line for it in inside for line in with_partners(it, by_id(run.observations))]
        found.append(_Suspect(_by_stage(one), one, more=tuple(more)))
    return found


def _by_stage(own: Behind) -> Named:
    """A host of which all ranks of the test stayed behind, else its devices."""
    first, host = own.seen[0], own.views[0].member.host
    whole = len(own.views) > 1 and len(own.views) == sum(view.member.host == host for view in first.ranks)
    kind = "host" if whole or own.stage == "none" or own.views[0].end is End.LOST else "device"
    members = (host,) if kind == "host" else tuple(sorted(own.places))
    ids = tuple(seen.test.id for seen in own.seen)
    return Named(Located(kind, members, ids, first.test.outcome), proven=False)


def _tests(own: Behind) -> str:
    return f"tests {', '.join(seen.test.id for seen in own.seen[:8])}"


def _blamed(run: _HangInputs, suspect: _Suspect, follows: Iterable[str]) -> Finding:
    own, first, views, stage = suspect.own, suspect.own.seen[0], suspect.own.views, suspect.own.stage
    others = [view for view in first.ranks if view.member not in own.members and view not in kept_waiting(first)]
    who = partners(suspect.it.one, by_id(run.observations)) if suspect.it.proven else []
    apart = f"so with {' and '.join(who[:3])}, which do well with others" if len(who) > 1 else waiting(first, others)
    how, member = _how(views[0]), views[0].member
    if stage == "none" or how.startswith(_LOST):
        ranks = len(own.places | {view.member.place for view in first.ranks if view.member.host == member.host})
        its = "its rank" if ranks == 1 else f"its {ranks} ranks"
        summary = f"{member.host}: {its} came as far as {stage}, and the host {how}"
    elif len(views) == 1 and suspect.it.kind == "device":
        rank = "" if first.test.scope is Scope.PAIR else f" (rank {member.rank})"  # of a pair it is nobody's rank
        summary = f"{member.host}: device {member.device}{rank} came as far as {stage} and {how}"
    else:
        word = "rank" if len(views) == 1 else "ranks"
        summary = f"{member.host}: {len(views)} {word} ({device_ranges(views)}) came as far as {stage} and {how}"
    said = [*(view.error for view in views), *(line for view in views for line in view.logs)]
    known = _meaning(run.all_, first, stage, said, views[0].state)
    return tell(
        run.all_,
        suspect.it,
        run.observations,
        run.causes,
        summary="; ".join(filter(None, (summary, apart))),
        trouble=_trouble(views[0]),
        likely=known.cause,
        remedy=known.remedy,
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
    """A link, a rail, groups … or somebody who fails now and then."""
    seen = [one for one in run.observations if one.test.id in it.one.tests and one.test.outcome in TROUBLE]
    if not seen:
        return tell(run.all_, it, run.observations, run.causes, trouble="tests fail")
    first, stage = seen[0], seen[0].test.stage
    known = _meaning(run.all_, first, stage, [view.error for one in seen for view in one.ranks if view.error])
    return tell(
        run.all_,
        it,
        run.observations,
        run.causes,
        trouble=_trouble(first.ranks[0]),
        likely=known.cause,
        remedy=known.remedy,
        expected="closed",
        found=stage,
        details=(
            *evidence(run.all_.cluster, first, first.ranks),
            *(stop.told for stop in follows if not {one.test.id for one in seen}.issuperset(stop.ids)),
        ),
    )


def _many_pairs(run: _HangInputs, stops: Sequence[Stop]) -> Finding:
    """So many pairs that it is not the links: what they have in common is all there is to say."""
    first = stops[0]
    errors = [view.error for stop in stops for one in stop.seen for view in one.ranks if view.error]
    known = _meaning(run.all_, first.seen[0], first.stage, errors)
    members = tuple(sorted({place for stop in stops for place in stop.places}))
    ids = tuple(id_ for stop in stops for id_ in stop.ids)
    return tell(
        run.all_,
        Named(Located("group", members, ids, first.seen[0].test.outcome), proven=False),
        run.observations,
        run.causes,
        summary=f"{len(stops)} pairs of devices stopped together, and nobody can be named",
        trouble=_trouble(first.seen[0].ranks[0]),
        likely=known.cause,
        remedy=known.remedy,
        expected="closed",
        found=", ".join(dict.fromkeys(stop.stage for stop in stops)),
        details=[f"{' with '.join(sorted(stop.places))}: {stop.told}" for stop in stops],
    )


def _all_stopped(run: _HangInputs, stop: Stop, others: Sequence[str]) -> Iterator[Finding]:
    """What is said of a group that stopped together. A pair names its link, and so both its hosts, each in a finding:
    neither is proven, and neither is well; unless facts know which it is, or it did well when it was tried again."""
    all_, first, stage = run.all_, stop.seen[0], stop.stage
    errors = [view.error for seen in stop.seen for view in seen.ranks if view.error]
    known = _meaning(all_, first, stage, errors)
    details = (*evidence(all_.cluster, first, first.ranks), f"tests {', '.join(stop.ids[:8])}", *others)
    trouble = _trouble(first.ranks[0])
    later = passed_later(stop, run.observations)
    once = f", and did well when tried again ({later})" if later else ""
    if len(stop.members) == 2:
        both = [
            tell(
                all_,
                _group("link", stop, (one.place, peer.place)),
                run.observations,
                run.causes,
                summary=f"{one.host}: device {one.device} and {peer.place} stopped together after {stage}{once}",
                likely=known.cause or "either end, or the path between them",
                remedy=known.remedy,
                details=details,
                report=all_.warn if later else all_.bad,
                trouble=trouble,
                expected="closed",
                found=stage,
            )
            for one, peer in (stop.members, stop.members[::-1])
        ]
        blamed = [told for told in both if told.culprit and {told.host, _place(told)} & set(told.culprit.members)]
        apart = len({member.host for member in stop.members}) == 2 and not later
        yield from blamed or (both if apart else both[:1])
        return
    common = "common to all ranks"
    yield tell(
        all_,
        _group("group", stop, tuple(sorted(stop.places))),
        run.observations,
        run.causes,
        summary=f"all {len(stop.members)} ranks stopped after {stage}: they waited for one another "
        f"{found_at(first.ranks[0])}{once}",
        likely=f"{common}: {known.cause}" if known.cause else common,
        remedy=known.remedy,
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
    """A class of cause, for programs."""
    gone = {End.LOST: "host lost", End.KILLED: "killed", End.EXITED: "left without a word", End.UNBORN: "never started"}
    return gone.get(view.end or End.OVERDUE, f"{'failed' if view.error else 'stuck'} {found_at(view)}")


def _found(seen: Observation, stage: str) -> str:
    """The stage; before the place where ranks meet, also where that is."""
    return f"{stage}, and no way to {seen.meeting.place}" if stage == "device" and seen.meeting else stage


def _meaning(all_: All, seen: Observation, stage: str, errors: Iterable[str], state: str = "") -> Meaning:
    """Of an error that is known, else what the process's state or the stage alone tells."""
    backend = seen.meeting.backend if seen.meeting else all_.cluster.probe.backend
    return next(filter(None, map(meaning, errors)), None) or usual(stage, backend, state)


def _how(view: RankView) -> str:
    """How it ended, in words, with the first line of its error."""
    error = first_line(view)
    how = {
        End.EXITED: "left without a word",
        End.KILLED: "was killed by a signal",
        End.LOST: _LOST,
        End.UNBORN: "was never started",
    }.get(view.end or End.OVERDUE, "died" if error else "did not go on")
    state = f" (process state {view.state}{HANDS.get(view.state, '')})" if view.stands_still else ""
    return how + state + (f": {error}" if error else "")
