"""Ranks that stopped earlier than others, and groups that stopped as one. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from preflight.attribution.culprit_words import Named, test_words
from preflight.model.measure import (
    STAGES,
    End,
    Member,
    Observation,
    RankView,
    Scope,
    TestOutcome,
    TestResult,
    kept_waiting,
)

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
        return f"{test_words(self.ids)}: {len(self.members)} ranks stopped after stage {self.stage}"


def late(observations: Sequence[Observation], objects: Sequence[Named] | None) -> tuple[list[Behind], list[Stop]]:
    """Return ranks that stayed behind in tests that failed or hung, and a stop for each test without such a rank.

    A rank that merely waited longer than others is not late if one of the `objects` explains the test. Nor is it in a
    pair, if it passes in other pairs. `objects` is None if culprits were not searched for.
    """
    well = _well(observations)
    failures = [observation for observation in observations if observation.test.outcome in TROUBLE]
    late_views = [(observation, _late_views(observation, objects, well)) for observation in failures]
    return _behind(late_views), _stops(observation for observation, views in late_views if not views)


def _late_views(observation: Observation, objects: Sequence[Named] | None, well: set[str]) -> list[RankView]:
    return [
        view for view in kept_waiting(observation) if by_itself(view) or not _let_go(view, observation, objects, well)
    ]


def _behind(late_views: Iterable[tuple[Observation, Sequence[RankView]]]) -> list[Behind]:
    """Return the late ranks by host, stage and end.

    The messages of one host's ranks may differ by an address or a number, and are evidence. Ranks that were ended with
    a late rank had stopped like it.
    """
    behind: dict[tuple[str, str, End | None], tuple[dict[str, RankView], list[Observation]]] = {}
    for observation, views in late_views:
        for view in views:
            end = view.end if view.end in _VANISHED else None
            stage = "" if end is End.LOST else view.stage  # the stage of its ranks has nothing to do with it
            views_by_place, tests = behind.setdefault((view.member.host, stage, end), ({}, []))
            views_by_place.setdefault(view.member.place, view)
            if observation not in tests:
                tests.append(observation)
    return [Behind(tuple(sorted(views.values(), key=_earliest)), tuple(tests)) for views, tests in behind.values()]


def _earliest(view: RankView) -> tuple[int, bool]:
    return STAGES.index(view.stage), not view.error


def _stops(observations: Iterable[Observation]) -> list[Stop]:
    stops: dict[tuple[tuple[Member, ...], str], list[Observation]] = {}
    for observation in observations:
        stops.setdefault((observation.test.members, observation.test.stage), []).append(observation)
    return [Stop(members, stage, tuple(tests)) for (members, stage), tests in stops.items()]


def _let_go(view: RankView, observation: Observation, objects: Sequence[Named] | None, well: set[str]) -> bool:
    """Return whether one of the objects explains why a rank waited, or the rank passes in other pairs."""
    if objects is None:
        return False
    own_place, places = view.member.place, observation.test.places
    if own_place in well and observation.test.scope is Scope.PAIR:
        return True
    culprits = [culprit for culprit in objects if culprit.explains(places) and not culprit.intermittent]
    return any(not culprit.single if culprit.part([own_place]) else own_place in well for culprit in culprits)


def by_itself(view: RankView) -> bool:
    """Return whether a rank failed by itself: before it met another rank, or it vanished, or does not continue."""
    early = STAGES.index(view.stage) < STAGES.index("device")
    return early or view.end in _VANISHED or view.stands_still


def _well(observations: Sequence[Observation]) -> set[str]:
    """Return the devices of pairs in which no test failed."""
    paired = [observation.test for observation in observations if observation.test.scope is Scope.PAIR]
    stuck = {test.members for test in paired if test.outcome in (*TROUBLE, TestOutcome.NOT_RUN)}
    return {place for test in paired if test.members not in stuck for place in test.places}


def of_its_tests(culprit: Named, observations: Sequence[Observation]) -> Behind | None:
    """Return where a culprit that only its partners show stopped first, or None if no failed test of it is known."""
    failures = _failures_of(culprit, observations)
    if not failures:
        return None
    views = {
        view.member.place: view
        for observation in reversed(failures)
        for view in observation.ranks
        if culprit.part([view.member.place])
    }
    first_stage = failures[0].test.stage
    return Behind(
        tuple(view for view in views.values() if view.stage == first_stage) or tuple(views.values())[-1:],
        tuple(failures),
    )


def _failures_of(culprit: Named, observations: Iterable[Observation]) -> list[Observation]:
    """Return the failed tests that show a culprit and in which it took part, by the stage at which they stopped."""
    failures = [
        observation
        for observation in observations
        if observation.test.id in culprit.one.tests
        and observation.test.outcome in TROUBLE
        and culprit.part(observation.test.places)
    ]
    return sorted(failures, key=lambda observation: STAGES.index(observation.test.stage))


def passed_later(stop: Stop, observations: Sequence[Observation]) -> str:
    """Return the id of a test of the same devices in the last later round, if all passed there, else nothing."""
    last = max(place for place, observation in enumerate(observations) if observation in stop.seen)
    rounds: dict[str, list[TestResult]] = {}
    for observation in observations[last + 1 :]:
        if observation.test.places == stop.places:
            rounds.setdefault(observation.test.round, []).append(observation.test)
    rounds.pop(stop.seen[-1].test.round, None)
    later = list(rounds.values())[-1:]
    passed = later and all(test.outcome is TestOutcome.PASS for test in later[0])
    return later[0][-1].id if passed else ""


def others_pass(culprit: Named, observations: Sequence[Observation]) -> Iterator[str]:
    """Yield that the largest group without the culprit passed, if a group with it failed."""
    large = _large_groups(observations)
    with_culprit = [test for test in large if culprit.part(test.places)]
    passed = [test for test in large if test.outcome is TestOutcome.PASS and not culprit.part(test.places)]
    if passed and any(test.outcome in TROUBLE for test in with_culprit):
        best = max(passed, key=lambda test: len(test.members))
        yield f"test {best.id}: {len(best.members)} other ranks passed together"


def _large_groups(observations: Iterable[Observation]) -> list[TestResult]:
    tests = (observation.test for observation in observations)
    return [test for test in tests if test.scope is Scope.ALL and len(test.members) > 2]


def nearest(stops: Sequence[Stop], observations: Sequence[Observation]) -> Iterator[tuple[Stop, list[Stop]]]:
    """Yield the stops nearest the cause, each with the stops that follow from it.

    A large group may contain smaller ones. If all of the smaller ones that were tried stopped, too, their cause is
    common to all, and the large group is the stop. If some of them passed, those that did not are the cause.
    """
    remaining = sorted(stops, key=lambda stop: -len(stop.members))
    while remaining:
        large, *smaller = remaining
        inner_stops = [stop for stop in smaller if stop.places < large.places]
        tried_groups = _tried_groups(inner_stops, large, observations)
        if inner_stops and {frozenset(stop.places) for stop in inner_stops} != tried_groups:
            for stop in inner_stops:
                yield stop, [large]
        else:
            yield large, inner_stops
        remaining = [stop for stop in smaller if stop not in inner_stops]


def _tried_groups(inner_stops: Iterable[Stop], large: Stop, observations: Iterable[Observation]) -> set[frozenset[str]]:
    """Return the groups inside a stop that were tested as the inner stops were."""
    scopes = {stop.seen[0].test.scope for stop in inner_stops}
    tests = (observation.test for observation in observations if observation.test.scope in scopes)
    return {test.places for test in tests if test.places < large.places}
