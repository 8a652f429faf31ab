"""Ranks that stopped earlier than others, and groups that stopped as one. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from preflight.attribution.culprits import Named
from preflight.model.measure import STAGES, End, Member, Observation, RankView, Scope, TestOutcome, kept_waiting

TROUBLE = (TestOutcome.FAIL, TestOutcome.HANG)
_VANISHED = (End.LOST, End.KILLED, End.EXITED, End.UNBORN)


@dataclass(frozen=True)
class Behind:
    """Ranks of one host that stayed behind at the same stage in the same way, the earliest first where it was lost with
    all of them; `seen`: the tests in which they did."""

    views: tuple[RankView, ...]
    seen: tuple[Observation, ...]

    @property
    def stage(self) -> str:
        return self.views[0].stage

    @property
    def members(self) -> set[Member]:
        return {view.member for view in self.views}

    @property
    def places(self) -> set[str]:
        return {view.member.place for view in self.views}

    def explains(self, stop: "Stop") -> bool:
        """Whether these ranks were among those that stopped together elsewhere, and not behind that place here."""
        return bool(self.places & stop.places) and STAGES.index(self.stage) <= STAGES.index(stop.stage)


@dataclass(frozen=True)
class Stop:
    """A group whose ranks all came equally far, so that nobody in it can be named; `seen`: the tests in which."""

    members: tuple[Member, ...]
    stage: str
    seen: tuple[Observation, ...]

    @property
    def places(self) -> set[str]:
        return {member.place for member in self.members}

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(seen.test.id for seen in self.seen)

    @property
    def moving(self) -> bool:
        """Whether its ranks had met, and data was on its way."""
        return STAGES.index(self.stage) >= STAGES.index("communicator")

    @property
    def told(self) -> str:
        return f"{', '.join(self.ids[:8])}: {len(self.members)} ranks stopped after {self.stage}"


def late(observations: Sequence[Observation], objects: Sequence[Named] | None) -> tuple[list[Behind], list[Stop]]:
    """Those that failed or hung, by who stayed behind in them, else as stops of all. A rank that merely waited longer
    than others is not held to be late where one of the `objects` explains the test; and not in a pair, if it is well in
    others: None where nobody has sought whom to name.
    """
    well = _well(observations)
    behind: dict[tuple[str, str, End | None], tuple[dict[str, RankView], list[Observation]]] = {}
    stops: dict[tuple[tuple[Member, ...], str], list[Observation]] = {}
    for seen in observations:
        if seen.test.outcome not in TROUBLE:
            continue
        views = [view for view in kept_waiting(seen) if by_itself(view) or not _let_go(view, seen, objects, well)]
        if not views:
            stops.setdefault((seen.test.members, seen.test.stage), []).append(seen)
        for view in views:
            end = view.end if view.end in _VANISHED else None
            stage = "" if end is End.LOST else view.stage  # what its ranks were at has nothing to do with it
            same, tests = behind.setdefault((view.member.host, stage, end), ({}, []))
            same.setdefault(view.member.place, view)
            if seen not in tests:
                tests.append(seen)
    # What ranks of one host said may differ by an address or a number, and is evidence. Those that were ended with a
    # rank that was late stood there like it.
    told_first = [
        sorted(same.values(), key=lambda view: (STAGES.index(view.stage), not view.error))
        for same, _ in behind.values()
    ]
    found = [Behind(tuple(views), tuple(seen)) for views, (_, seen) in zip(told_first, behind.values(), strict=True)]
    return found, [Stop(members, stage, tuple(seen)) for (members, stage), seen in stops.items()]


def _let_go(view: RankView, seen: Observation, objects: Sequence[Named] | None, well: set[str]) -> bool:
    if objects is None:
        return False
    own, places = view.member.place, {member.place for member in seen.test.members}
    if own in well and seen.test.scope is Scope.PAIR:
        return True
    guilty = [it for it in objects if it.explains(places) and not it.intermittent]
    return any((not it.single and it.part([own])) or (own in well and not it.part([own])) for it in guilty)


def by_itself(view: RankView) -> bool:
    """Whether it failed before it met anybody, or vanished, or its process stands still: nobody else did that to it."""
    early = STAGES.index(view.stage) < STAGES.index("device")
    return early or view.end in _VANISHED or view.stands_still


def _well(observations: Sequence[Observation]) -> set[str]:
    """The devices of pairs in which nothing failed."""
    paired = [seen for seen in observations if seen.test.scope is Scope.PAIR]
    stuck = {seen.test.members for seen in paired if seen.test.outcome in (*TROUBLE, TestOutcome.NOT_RUN)}
    return {member.place for seen in paired if seen.test.members not in stuck for member in seen.test.members}


def of_its_tests(it: Named, observations: Sequence[Observation]) -> Behind | None:
    """Somebody who is convicted by partners alone, at the earliest stage at which it stopped; None if no test of it is
    here."""
    seen = [one for one in observations if one.test.id in it.one.tests and one.test.outcome in TROUBLE]
    seen = [one for one in seen if it.part(member.place for member in one.test.members)]
    if not seen:
        return None
    seen.sort(key=lambda one: STAGES.index(one.test.stage))
    views = {view.member.place: view for one in reversed(seen) for view in one.ranks if it.part([view.member.place])}
    first = seen[0].test.stage
    return Behind(
        tuple(view for view in views.values() if view.stage == first) or tuple(views.values())[-1:], tuple(seen)
    )


def passed_later(stop: Stop, observations: Sequence[Observation]) -> str:
    """The id of a test of the same devices in a later round in which nothing failed; empty: there is none."""
    last = max(place for place, seen in enumerate(observations) if seen in stop.seen)
    rounds: dict[str, list[Observation]] = {}
    for seen in observations[last + 1 :]:
        if {member.place for member in seen.test.members} == stop.places:
            rounds.setdefault(seen.test.id.partition("-")[0], []).append(seen)
    rounds.pop(stop.seen[-1].test.id.partition("-")[0], None)
    later = list(rounds.values())[-1:]
    return later[0][-1].test.id if later and all(seen.test.outcome is TestOutcome.PASS for seen in later[0]) else ""


def others_do_well(it: Named, observations: Sequence[Observation]) -> Iterator[str]:
    """That a larger group without it passed, the largest that did, where one with it had failed."""
    large = [seen for seen in observations if seen.test.scope is Scope.ALL and len(seen.test.members) > 2]
    with_it = {seen.test.id: bool(it.part(member.place for member in seen.test.members)) for seen in large}
    passed = [one for one in large if one.test.outcome is TestOutcome.PASS and not with_it[one.test.id]]
    if passed and any(seen.test.outcome in TROUBLE and with_it[seen.test.id] for seen in large):
        best = max(passed, key=lambda one: len(one.test.members)).test
        yield f"{best.id}: {len(best.members)} other ranks did well together"


def nearest(stops: Sequence[Stop], observations: Sequence[Observation]) -> Iterator[tuple[Stop, list[Stop]]]:
    """The stops nearest the cause, each with the others that follow from it.

    Of a large group and smaller ones in it: where all the smaller ones that were tried stopped too, what stops them
    is common to all, and the large one speaks; where some went well, those that did not are the cause.
    """
    left = sorted(stops, key=lambda stop: -len(stop.members))
    while left:
        large, *rest = left
        inside = [stop for stop in rest if stop.places < large.places]
        scopes = {stop.seen[0].test.scope for stop in inside}
        groups = [_places(seen.test.members) for seen in observations if seen.test.scope in scopes]
        tried = {group for group in groups if group < large.places}
        if inside and {frozenset(stop.places) for stop in inside} != tried:
            for stop in inside:
                yield stop, [large]
        else:
            yield large, inside
        left = [stop for stop in rest if stop not in inside]


def _places(members: Iterable[Member]) -> frozenset[str]:
    return frozenset(member.place for member in members)
