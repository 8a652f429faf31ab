"""Ranks without a word of their own, by invented messages and an invented clock."""

import pytest

from preflight.model.measure import End, kept_waiting
from preflight.probe.messages import Killed
from preflight.probe.round_state import DYING, GRACE
from tests.unit.probe.test_round_state import DEADLINE, Play, missing

TIMED_OUT = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 55000ms"


def given_up(after: float, *silent: int, error: str = TIMED_OUT) -> Play:
    """All four ranks are in a test; the others say `error` when they have waited for `after` seconds."""
    play = Play()
    play.reach("communicator")
    play.enter(0)
    play.now = after
    play.end(End.ERROR, *({0, 1, 2, 3} - {*silent}), error=error)
    play.now = DEADLINE
    play.end(End.STOPPED, *silent, state="S")
    return play


def test_who_has_no_word_when_all_others_have_given_up_is_named() -> None:
    assert missing(given_up(55.0, 2).seen()[1]) == [2]


@pytest.mark.parametrize(
    ("after", "silent", "error"),
    [
        (55.0, (1, 2), TIMED_OUT),  # half of them: either half may have waited for the other
        (DEADLINE - 0.1, (2,), TIMED_OUT),  # it might have said the same a moment later
        (9.0, (1, 2), "RuntimeError: out of memory"),  # they died early, and did not wait
        (55.0, (2,), "EI0006: no socket in time"),  # not every rank that waits on HCCL ends like that
    ],
)
def test_silence_alone_convicts_nobody(after: float, silent: tuple[int, ...], error: str) -> None:
    assert missing(given_up(after, *silent, error=error).seen()[1]) == []


def test_who_stays_when_all_others_have_left_is_named_though_it_merely_sleeps() -> None:
    play = Play()
    play.reach("communicator")
    play.result(0)
    play.result(1)
    play.end(End.CLOSED, 0, 1, 2)
    play.now = DEADLINE + 1
    play.end(End.OVERDUE, 3, state="S")
    assert missing(play.seen()[-1]) == [3]


def killed(play: Play, *ranks: int, state: str = "D") -> None:
    for rank in ranks:
        play.watch.take(play.hosts("g")[rank], Killed("n", "g", rank, "overdue", state), play.now)


def test_a_worker_that_survives_sigkill_is_told_with_its_state_and_its_host_is_not_lost() -> None:
    play = Play()
    play.reach("torch")
    play.reach("backend", 0, 1, 2)
    play.now = DEADLINE + 1
    killed(play, 3)
    play.end(End.OVERDUE, 0, 1, state="S")
    play.end(End.STOPPED, 2, state="S")
    play.now += DYING - 1
    killed(play, 3, state="S")  # said again, it counts no more
    play.orders()
    assert not play.watch.over
    play.now += 2
    play.orders()
    (view,) = kept_waiting(play.seen()[0])
    assert (view.member.rank, view.stage, view.end, view.state, view.held) == (3, "torch", End.OVERDUE, "D", True)
    assert play.watch.lost_hosts() == []


def test_a_worker_that_dies_late_of_sigkill_has_left_its_device() -> None:
    play = Play()
    play.reach("backend")
    play.now = DEADLINE + 1
    killed(play, 0, 1, 2, 3, state="S")
    play.now += DYING - 1
    play.end(End.OVERDUE, state="S")
    assert not any(view.held for view in play.seen()[0].ranks)


def test_the_others_are_stopped_once_one_had_to_be_killed_though_it_does_not_die() -> None:
    play = Play()
    play.reach("communicator")
    play.now = DEADLINE + 1
    killed(play, 3)
    play.now += GRACE + 0.1
    assert play.orders() == [("stop", "g")]
