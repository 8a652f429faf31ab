"""Pairs that stand still while others have shown how long it takes, by invented messages and an invented clock."""

import pytest

from preflight.model.measure import End, Member, Scope, TestOutcome, kept_waiting
from preflight.probe.messages import Killed
from preflight.probe.operations.operation import Operation
from preflight.probe.round_state import CLOSING, SLACK, TURN, RoundState
from preflight.probe.rounds import RankGroup
from preflight.probe.timeouts.deadlines import hurried
from tests.unit.probe.test_round_state import DEADLINE, STAGES, Play

TEST = (Operation("all_reduce", "float32", 1 << 20),)
STUCK = "hangs"


class Pairs(Play):
    """Pairs that run the same; of those named `well` two finish after `took` seconds, another one stands still."""

    def __init__(self, *pairs: RankGroup, lanes: int = 8, earlier: tuple[float, ...] = ()) -> None:
        super().__init__(*pairs, lanes=lanes)
        self.watch = RoundState(self.round, DEADLINE, 0.0, earlier)

    def finish(self, name: str, now: float) -> None:
        self.now = now
        self.reach("communicator", name=name)
        self.result(0, name=name)
        self.end(End.CLOSED, name=name)


def pair(name: str, tests: tuple[Operation, ...] = TEST, scope: Scope = Scope.PAIR) -> RankGroup:
    return RankGroup(name, (Member("a", 0, 0), Member("b", 0, 1)), tests, scope)


def stuck(*more: RankGroup, took: float = 2.0) -> Pairs:
    """Two pairs have finished after `took` seconds, one has got to its peers at once and no further."""
    play = Pairs(pair("one"), pair("two"), pair(STUCK), *more)
    play.reach("peers", name=STUCK)
    play.finish("one", took)
    play.finish("two", took)
    return play


def test_a_pair_that_stands_still_is_stopped_soon_once_half_of_them_have_finished() -> None:
    play = stuck(took=2.0)
    play.now = 3 * 2.0 + 5
    assert play.orders() == []
    play.now += 0.1
    assert play.orders() == [("stop", STUCK)]
    assert play.orders() == [], "once"


def test_it_ends_as_a_hang_at_its_stage_and_nobody_is_named_where_both_are_equally_far() -> None:
    play = stuck()
    play.now = 20.0
    play.orders()
    for rank in (0, 1):
        play.watch.take("ab"[rank], Killed("n", STUCK, rank, "stopped", "S", ["10.0.0.2:60000"]), play.now)
    play.end(End.STOPPED, name=STUCK, state="S")
    hang = next(seen for seen in play.seen() if seen.test.outcome is TestOutcome.HANG)
    assert (hang.test.op, hang.test.stage) == ("init", "peers")
    assert [view.end for view in hang.ranks] == [End.OVERDUE] * 2
    assert kept_waiting(hang) == ()


def test_so_does_one_whose_agents_do_not_confirm_that_it_was_ended() -> None:
    play = stuck()
    play.now = 20.0
    assert play.orders() == [("stop", STUCK)]
    play.now += SLACK + 0.1
    play.orders()
    assert TestOutcome.HANG in {seen.test.outcome for seen in play.seen()}


@pytest.mark.parametrize(
    "play",
    [
        stuck(*(pair(f"{number}") for number in range(6))),  # two of nine have finished
        stuck(pair("three", tests=TEST * 2)),  # what the others run is another matter
        stuck(pair("three", scope=Scope.RAIL)),
    ],
)
def test_a_pair_is_given_its_whole_deadline_where_others_do_not_show_how_long_it_takes(play: Pairs) -> None:
    play.now = DEADLINE - 1
    assert ("stop", STUCK) not in play.orders()


def test_those_that_failed_do_not_show_it() -> None:
    failing = ("two", "three", "four")
    play = Pairs(pair("one"), *map(pair, failing), pair(STUCK))
    play.reach("peers", name=STUCK)
    play.finish("one", 1.0)
    for name in failing:
        play.end(End.ERROR, name=name, error="no device")
    play.now = DEADLINE - 1
    assert play.orders() == []


def test_a_pair_that_gets_on_is_not_stopped_though_it_is_slow() -> None:
    play = stuck(took=2.0)
    for stage, now in zip(STAGES[5:], (10.0, 20.0), strict=True):
        play.now = now
        play.reach(stage, name=STUCK)
        assert play.orders() == []
    play.now = 29.0
    play.result(0, 0, name=STUCK)
    play.now = 39.0
    assert play.orders() == [], "one of the two has got on"


def test_where_pairs_take_turns_waiting_for_one_s_turn_does_not_count() -> None:
    well, rest = ("one", "two", "three"), (STUCK, "hangs too", "last")
    play = Pairs(*map(pair, (*well, *rest)), lanes=1)
    for name in (*well, *rest):
        play.reach("communicator", name=name)
    for name in well:
        assert play.orders() == [("go", name)]
        play.now += 1
        play.result(0, name=name)
        play.end(End.CLOSED, name=name)
    for name in rest:
        assert play.orders() == [("go", name)]
        play.now += TURN + 0.1
    play.now = 3 + 3 * 2.0 + 5 + 0.1  # the first of the rest had its turn at 3, the last at 13.2
    assert play.orders() == [("stop", STUCK)]


@pytest.mark.parametrize(
    ("took", "groups", "scope", "seconds"),
    [
        ([], 2, Scope.PAIR, 180.0),
        ([1.0], 5, Scope.PAIR, 180.0),  # less than a quarter
        ([1.0], 4, Scope.PAIR, 10.0),  # no less, ever
        ([1.0], 4, Scope.DEVICE, 30.0),
        ([1.0], 4, Scope.RAIL, 180.0),  # rails cannot be compared
        ([1.0, 6.0, 7.0], 4, Scope.PAIR, 23.0),
        ([100.0], 1, Scope.PAIR, 180.0),  # no more than it would have had
    ],
)
def test_seconds_of_a_step_after_others_have_finished(
    took: list[float], groups: int, scope: Scope, seconds: float
) -> None:
    assert hurried(took, groups, scope, 180.0) == seconds


def test_a_lone_pair_is_compared_with_pairs_of_earlier_rounds() -> None:
    play = Pairs(pair(STUCK), earlier=(2.0, 2.5))
    play.reach("peers", name=STUCK)
    play.now = 3 * 2.25 + 5
    assert play.orders() == []
    play.now += 0.1
    assert play.orders() == [("stop", STUCK)]


def test_a_rank_that_does_not_end_after_half_of_its_group_have_is_stopped_early() -> None:
    play = Pairs(pair(STUCK, scope=Scope.ALL))
    play.reach("communicator", name=STUCK)
    play.result(0, name=STUCK)
    play.now = 1.0
    play.end(End.CLOSED, 0, name=STUCK)
    play.now = 1.0 + CLOSING
    assert play.orders() == []
    play.now += 0.1
    assert play.orders() == [("stop", STUCK)]
