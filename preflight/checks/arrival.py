"""Who did not arrive, and who waited for whom: a hang as a sentence."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from preflight.checks.registry import All, cluster_check
from preflight.checks.whereabouts import HANDS, device_ranges, evidence, first_line, found_at, waiting
from preflight.facts.last_words import Meaning, meaning
from preflight.facts.stages import usual
from preflight.model.finding import Finding
from preflight.model.measure import STAGES, End, Member, Observation, RankView, Scope, TestOutcome, kept_waiting

_TROUBLE = (TestOutcome.FAIL, TestOutcome.HANG)
_LOST = "was lost"
_VANISHED = (End.LOST, End.KILLED, End.EXITED, End.UNBORN)


@cluster_check("PRB101", "Every rank arrives at every stage of the probe", several=False)
def all_arrive(all_: All, observations: tuple[Observation, ...]) -> Iterator[Finding]:
    """Why: a collective needs every rank; one that is missing makes all others wait until a time-out, whose message
    names whoever waited. The probe asks each rank how far it came, so those that stayed behind are named, with the
    last stage they got through: spawned, python, torch, backend, device, store, peers,
    communicator, warm-up, iteration, values, closed.

    By hand: the job's log of the rank that is named, not of the one that complained

    Mend: by the stage: before device: software on the host; store: route, firewall or port of the first rank;
    communicator: the device's address, link and TLS switch; iteration: the fabric
    """
    if not observations:
        yield all_.unknown("the probe brought no results", host=None)
    troubled = [seen for seen in observations if seen.test.outcome in _TROUBLE]
    unheard = {view.member.host: view for seen in observations for view in seen.ranks if _not_waited_for(view)}
    for host, view in unheard.items():
        yield all_.unknown(
            f"{host}: it came as far as {view.stage} in the time that there was for it: {view.error}",
            host=host, evidence=view.logs, remedy="probe without --budget, or with more: it has a minute for this then",
        )  # fmt: skip
    not_run = [seen for seen in observations if seen.test.outcome is TestOutcome.NOT_RUN]
    left = [seen.test.id for seen in not_run if not any(map(_not_waited_for, seen.ranks))]
    if left and not troubled:  # else they follow from the tests that failed
        yield all_.unknown(f"{len(left)} tests did not run", host=None, evidence=(f"tests {', '.join(left[:8])}",))
    culprits, stops = _culprits(troubled), _common_stops(troubled)
    culprits += _convicted([stop for stop in stops if not any(one.explains(stop) for one in culprits)], observations)
    for culprit in culprits:
        yield _blamed(all_, culprit, [stop for stop in stops if culprit.explains(stop)])
    unexplained = [stop for stop in stops if not any(culprit.explains(stop) for culprit in culprits)]
    for stop, others in _nearest(unexplained, observations):
        yield from _all_stopped(all_, stop, others)


def _not_waited_for(view: RankView) -> bool:
    """In the roll-call alone it is known what a rank was at when the time was spent."""
    return view.end is End.CUT and bool(view.error)


@dataclass(frozen=True)
class _Culprit:
    """Ranks of one host that stayed behind at the same stage in the same way; `seen`: the tests in which they did.
    `partners`: of a device that no test alone could name, those with which it stopped, and which do well elsewhere."""

    views: tuple[RankView, ...]
    seen: tuple[Observation, ...]
    partners: tuple[str, ...] = ()

    @property
    def stage(self) -> str:
        return self.views[0].stage

    @property
    def members(self) -> set[Member]:
        return {view.member for view in self.views}

    def explains(self, stop: "_Stop") -> bool:
        """Whether these ranks were among those that stopped together elsewhere, and not behind that place here."""
        devices = {(member.host, member.device) for member in self.members}
        among = any((member.host, member.device) in devices for member in stop.members)
        return among and STAGES.index(self.stage) <= STAGES.index(stop.stage)


@dataclass(frozen=True)
class _Stop:
    """A group whose ranks all came equally far, so that nobody in it can be named; `seen`: the tests in which."""

    members: tuple[Member, ...]
    stage: str
    seen: tuple[Observation, ...]

    @property
    def tests(self) -> str:
        return ", ".join(seen.test.id for seen in self.seen[:8])


def _culprits(troubled: Iterable[Observation]) -> list[_Culprit]:
    """One a host, stage and way to vanish: what they said may differ by an address or a number, and is evidence. Those
    that were ended with a rank that was late stood there like it."""
    found: dict[tuple[str, str, End | None], tuple[dict[tuple[str, int], RankView], list[Observation]]] = {}
    for seen in troubled:
        for view in kept_waiting(seen):
            end = view.end if view.end in _VANISHED else None
            views, tests = found.setdefault((view.member.host, view.stage, end), ({}, []))
            views.setdefault((view.member.host, view.member.device), view)
            if seen not in tests:
                tests.append(seen)
    told_first = [sorted(views.values(), key=lambda view: not view.error) for views, _ in found.values()]
    return [_Culprit(tuple(views), tuple(tests)) for views, (_, tests) in zip(told_first, found.values(), strict=True)]


def _common_stops(troubled: Iterable[Observation]) -> list[_Stop]:
    found: dict[tuple[tuple[Member, ...], str], list[Observation]] = {}
    for seen in troubled:
        if not kept_waiting(seen):
            found.setdefault((seen.test.members, seen.test.stage), []).append(seen)
    return [_Stop(members, stage, tuple(tests)) for (members, stage), tests in found.items()]


def _convicted(stops: Sequence[_Stop], observations: Sequence[Observation]) -> list[_Culprit]:
    """The devices that stopped with two partners which do well with others, and did well with nobody."""
    paired = [seen for seen in observations if seen.test.scope is Scope.PAIR]
    stuck = {seen.test.members for seen in paired if seen.test.outcome in (*_TROUBLE, TestOutcome.NOT_RUN)}
    well = _devices(member for seen in paired if seen.test.members not in stuck for member in seen.test.members)
    found: dict[tuple[str, int], dict[tuple[str, int], _Stop]] = defaultdict(dict)
    for stop in stops:
        if len(stop.members) == 2:
            one, other = ((member.host, member.device) for member in stop.members)
            found[one].setdefault(other, stop)
            found[other].setdefault(one, stop)
    convicted = []
    for device, with_ in found.items():
        good = [f"{host}/{number}" for host, number in with_ if (host, number) in well]
        if device not in well and len(good) >= 2:
            seen = [one for stop in with_.values() for one in stop.seen]
            seen.sort(key=lambda one: STAGES.index(one.test.stage))
            view = next(view for view in seen[0].ranks if (view.member.host, view.member.device) == device)
            convicted.append(_Culprit((view,), tuple(seen), tuple(good)))
    return convicted


def _nearest(stops: Sequence[_Stop], observations: Sequence[Observation]) -> Iterator[tuple[_Stop, list[_Stop]]]:
    """The stops nearest the cause, each with the others that follow from it.

    Of a large group and smaller ones in it: where all the smaller ones that were tried stopped too, what stops them
    is common to all, and the large one speaks; where some went well, those that did not are the cause.
    """
    left = sorted(stops, key=lambda stop: -len(stop.members))
    while left:
        large, *rest = left
        devices = _devices(large.members)
        inside = [stop for stop in rest if _devices(stop.members) < devices]
        scopes = {stop.seen[0].test.scope for stop in inside}
        tried = {
            frozenset(_devices(seen.test.members))
            for seen in observations
            if seen.test.scope in scopes and _devices(seen.test.members) < devices
        }
        if inside and {frozenset(_devices(stop.members)) for stop in inside} != tried:
            for stop in inside:
                yield stop, [large]
        else:
            yield large, inside
        left = [stop for stop in rest if stop not in inside]


def _devices(members: Iterable[Member]) -> set[tuple[str, int]]:
    return {(member.host, member.device) for member in members}


def _blamed(all_: All, culprit: _Culprit, follows: Sequence[_Stop]) -> Finding:
    first, views, stage = culprit.seen[0], culprit.views, culprit.stage
    others = [view for view in first.ranks if view.member not in culprit.members]
    behind = waiting(first, [view for view in others if view not in kept_waiting(first)])
    if culprit.partners:
        behind = f"so with {' and '.join(culprit.partners[:3])}, which do well with others"
    how = _how(views[0])
    member = views[0].member
    if stage == "none" or how.startswith(_LOST):
        ranks = sum(view.member.host == member.host for view in first.ranks)
        summary = f"{member.host}: its {ranks} ranks came as far as {stage}, and the host {how}"
    elif len(views) == 1:
        summary = f"{member.host}: device {member.device} (rank {member.rank}) came as far as {stage} and {how}"
    else:
        summary = f"{member.host}: {len(views)} ranks ({device_ranges(views)}) came as far as {stage} and {how}"
    tests = ", ".join(seen.test.id for seen in culprit.seen[:8])
    more = [
        f"tests {tests}",
        *(_told(stop) for stop in follows if stop.seen[0] not in culprit.seen),
    ]
    said = [*(view.error for view in views), *(line for view in views for line in view.logs)]
    known = _meaning(all_, first, stage, said, views[0].state)
    return all_.bad(
        "; ".join(filter(None, (summary, behind))), host=member.host,
        device=member.device if len(views) == 1 else None, expected="closed", found=_found(first, stage),
        cause=known.cause, remedy=known.remedy, evidence=(*evidence(all_.cluster, first, views), *more),
    )  # fmt: skip


def _told(stop: _Stop) -> str:
    return f"{stop.tests}: {len(stop.members)} ranks stopped after {stop.stage}"


def _all_stopped(all_: All, stop: _Stop, others: Sequence[_Stop]) -> Iterator[Finding]:
    """What is said of a group that stopped together. A pair names its link, and so both its hosts, each in a finding:
    neither is proven, and neither is well."""
    first, stage = stop.seen[0], stop.stage
    errors = [view.error for seen in stop.seen for view in seen.ranks if view.error]
    known = _meaning(all_, first, stage, errors)
    more = [f"tests {stop.tests}"]
    more += map(_told, others)
    told = (*evidence(all_.cluster, first, first.ranks), *more)
    if len(stop.members) == 2:
        both = (stop.members, stop.members[::-1])
        for one, peer in both if len({member.host for member in stop.members}) == 2 else both[:1]:
            yield all_.bad(
                f"{one.host}: device {one.device} and {peer.place} stopped together after {stage}",
                host=one.host, device=one.device, peer=peer.place, expected="closed", found=stage,
                evidence=told, cause=known.cause or "either end, or the path between them", remedy=known.remedy,
            )  # fmt: skip
        return
    common = "common to all ranks"
    yield all_.bad(
        f"all {len(stop.members)} ranks stopped after {stage}: they waited for one another "
        f"{found_at(first.ranks[0])}", host=None, expected="closed", found=stage, evidence=told,
        cause=f"{common}: {known.cause}" if known.cause else common, remedy=known.remedy,
    )  # fmt: skip


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
    state = f" (process state {view.state}{HANDS.get(view.state, '')})" if view.state not in ("", "S", "R") else ""
    return how + state + (f": {error}" if error else "")
