"""Ranks that stopped earlier than others, and groups that stopped as one. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from preflight.attribution.culprit_words import Named
from preflight.model.measure import STAGES, End, Member, Observation, RankView, Scope, TestOutcome, kept_waiting

TROUBLE = (TestOutcome.FAIL, TestOutcome.HANG)
_VANISHED = (End.LOST, End.KILLED, End.EXITED, End.UNBORN)


@dataclass(frozen=True)
class Behind:
    """Ranks of one host that stayed behind at the same stage in the same way.

    If the host was lost with all of them, the earliest comes first. `seen`: the tests in which they stayed behind.
    """

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
        """Return whether `stop` has some of these ranks, at the same stage or a later one."""
        return bool(self.places & stop.places) and STAGES.index(self.stage) <= STAGES.index(stop.stage)


@dataclass(frozen=True)
class Stop:
    """A group that stopped at one stage, so that no rank can be identified. `seen`: the tests of this stop."""

    members: tuple[Member, ...]
    stage: str
    seen: tuple[Observation, ...]

    @property
    def places(self) -> set[str]:
        return {member.place for member in self.members}

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(observation.test.id for observation in self.seen)

    @property
    def moving(self) -> bool:
        """True if its ranks had met, and data was in transfer."""
        return STAGES.index(self.stage) >= STAGES.index("communicator")

    @property
    def told(self) -> str:
        return f"{', '.join(self.ids[:8])}: {len(self.members)} ranks stopped after {self.stage}"


def late(observations: Sequence[Observation], objects: Sequence[Named] | None) -> tuple[list[Behind], list[Stop]]:
    """Return ranks that stayed behind in tests that failed or hung, and a stop for each test without such a rank.

    A rank that merely waited longer than others is not late if one of the `objects` explains the test. Nor is it in a
    pair, if it passes in other pairs. `objects` is None if culprits were not searched for.
    """
    well = _well(observations)
    behind: dict[tuple[str, str, End | None], tuple[dict[str, RankView], list[Observation]]] = {}
    stops: dict[tuple[tuple[Member, ...], str], list[Observation]] = {}
    for observation in observations:
        if observation.test.outcome not in TROUBLE:
            continue
        views = [
            view
            for view in kept_waiting(observation)
            if by_itself(view) or not _let_go(view, observation, objects, well)
        ]
        if not views:
            stops.setdefault((observation.test.members, observation.test.stage), []).append(observation)
        for view in views:
            end = view.end if view.end in _VANISHED else None
            stage = "" if end is End.LOST else view.stage  # the stage of its ranks has nothing to do with it
            views_by_place, tests = behind.setdefault((view.member.host, stage, end), ({}, []))
            views_by_place.setdefault(view.member.place, view)
            if observation not in tests:
                tests.append(observation)
    # The messages of one host's ranks may differ by an address or a number, and are evidence. Ranks that were ended
    # with a late rank had stopped like it.
    ordered = [
        sorted(views_by_place.values(), key=lambda view: (STAGES.index(view.stage), not view.error))
        for views_by_place, _ in behind.values()
    ]
    behind_ranks = [
        Behind(tuple(views), tuple(tests)) for views, (_, tests) in zip(ordered, behind.values(), strict=True)
    ]
    return behind_ranks, [Stop(members, stage, tuple(tests)) for (members, stage), tests in stops.items()]


def _let_go(view: RankView, seen: Observation, objects: Sequence[Named] | None, well: set[str]) -> bool:
    if objects is None:
        return False
    own_place, places = view.member.place, {member.place for member in seen.test.members}
    if own_place in well and seen.test.scope is Scope.PAIR:
        return True
    culprits = [culprit for culprit in objects if culprit.explains(places) and not culprit.intermittent]
    return any(
        (not culprit.single and culprit.part([own_place])) or (own_place in well and not culprit.part([own_place]))
        for culprit in culprits
    )


def by_itself(view: RankView) -> bool:
    """Return whether a rank failed by itself: before it met another rank, or it vanished, or it stands still."""
    early = STAGES.index(view.stage) < STAGES.index("device")
    return early or view.end in _VANISHED or view.stands_still


def _well(observations: Sequence[Observation]) -> set[str]:
    """Return the devices of pairs in which no test failed."""
    paired = [observation for observation in observations if observation.test.scope is Scope.PAIR]
    stuck = {
        observation.test.members
        for observation in paired
        if observation.test.outcome in (*TROUBLE, TestOutcome.NOT_RUN)
    }
    return {
        member.place
        for observation in paired
        if observation.test.members not in stuck
        for member in observation.test.members
    }


def of_its_tests(it: Named, observations: Sequence[Observation]) -> Behind | None:
    """Return where a culprit that only its partners show stopped first, or None if no failed test of it is known."""
    failures = [
        observation
        for observation in observations
        if observation.test.id in it.one.tests and observation.test.outcome in TROUBLE
    ]
    failures = [observation for observation in failures if it.part(member.place for member in observation.test.members)]
    if not failures:
        return None
    failures.sort(key=lambda observation: STAGES.index(observation.test.stage))
    views = {
        view.member.place: view
        for observation in reversed(failures)
        for view in observation.ranks
        if it.part([view.member.place])
    }
    first_stage = failures[0].test.stage
    return Behind(
        tuple(view for view in views.values() if view.stage == first_stage) or tuple(views.values())[-1:],
        tuple(failures),
    )


def passed_later(stop: Stop, observations: Sequence[Observation]) -> str:
    """Return the id of a test of the same devices in the last later round, if all passed there, else nothing."""
    last = max(place for place, observation in enumerate(observations) if observation in stop.seen)
    rounds: dict[str, list[Observation]] = {}
    for observation in observations[last + 1 :]:
        if {member.place for member in observation.test.members} == stop.places:
            rounds.setdefault(observation.test.id.partition("-")[0], []).append(observation)
    rounds.pop(stop.seen[-1].test.id.partition("-")[0], None)
    later = list(rounds.values())[-1:]
    return (
        later[0][-1].test.id
        if later and all(observation.test.outcome is TestOutcome.PASS for observation in later[0])
        else ""
    )


def others_do_well(it: Named, observations: Sequence[Observation]) -> Iterator[str]:
    """Yield that the largest group without the culprit passed, if a group with it failed."""
    large = [
        observation
        for observation in observations
        if observation.test.scope is Scope.ALL and len(observation.test.members) > 2
    ]
    with_it = {
        observation.test.id: bool(it.part(member.place for member in observation.test.members)) for observation in large
    }
    passes = [
        observation
        for observation in large
        if observation.test.outcome is TestOutcome.PASS and not with_it[observation.test.id]
    ]
    if passes and any(observation.test.outcome in TROUBLE and with_it[observation.test.id] for observation in large):
        best = max(passes, key=lambda observation: len(observation.test.members)).test
        yield f"{best.id}: {len(best.members)} other ranks did well together"


def nearest(stops: Sequence[Stop], observations: Sequence[Observation]) -> Iterator[tuple[Stop, list[Stop]]]:
    """Yield the stops nearest the cause, each with the stops that follow from it.

    A large group may contain smaller ones. If all of the smaller ones that were tried stopped, too, their cause is
    common to all, and the large group is the stop. If some of them passed, those that did not are the cause.
    """
    remaining = sorted(stops, key=lambda stop: -len(stop.members))
    while remaining:
        large, *smaller = remaining
        inner_stops = [stop for stop in smaller if stop.places < large.places]
        scopes = {stop.seen[0].test.scope for stop in inner_stops}
        groups = [_places(observation.test.members) for observation in observations if observation.test.scope in scopes]
        tried_groups = {group for group in groups if group < large.places}
        if inner_stops and {frozenset(stop.places) for stop in inner_stops} != tried_groups:
            for stop in inner_stops:
                yield stop, [large]
        else:
            yield large, inner_stops
        remaining = [stop for stop in smaller if stop not in inner_stops]


def _places(members: Iterable[Member]) -> frozenset[str]:
    return frozenset(member.place for member in members)
