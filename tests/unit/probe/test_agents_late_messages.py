"""Words of ranks that come late, twice, or belong to nobody's test: none of them changes what was seen."""

from collections.abc import Callable

import pytest

from preflight.model.measure import End, TestOutcome
from preflight.probe.messages import Ended, RankMessage, Reached, Result
from tests.unit.probe.test_round_state import TESTS, Play


def healthy(disturb: Callable[[Play], None] = lambda _: None) -> Play:
    play = Play()
    play.reach("communicator")
    for number in range(len(TESTS)):
        play.enter(number)
        play.result(number)
        disturb(play)
    play.end(End.CLOSED)
    return play


def result(group: str, rank: int, test: int) -> Result:
    return Result("n", group, rank, test, [9.0], 5, "wrong", 0)


@pytest.mark.parametrize(
    "word",
    [
        result("g", 0, 0),  # twice
        result("g", 0, len(TESTS)),
        result("g", 99, 0),
        result("of-another-round", 0, 0),
        Reached("n", "of-another-round", 0, "closed"),
        Ended("n", "g", 99, End.KILLED, "", "", ""),
    ],
)
def test_a_word_twice_or_for_no_test_of_the_round_changes_nothing(word: RankMessage) -> None:
    disturbed = healthy(lambda play: play.watch.take("a", word, play.now))
    assert disturbed.seen() == healthy().seen()
    assert {one.test.outcome for one in disturbed.seen()} == {TestOutcome.PASS}


def test_a_word_that_comes_after_the_end_changes_nothing() -> None:
    play = healthy()
    before = play.seen()
    play.watch.take("a", result("g", 0, 1), play.now)
    play.watch.take("a", Reached("n", "g", 0, "spawned"), play.now)
    assert play.seen() == before
