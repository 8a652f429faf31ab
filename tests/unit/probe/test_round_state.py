"""The state of a round, told by invented messages and an invented clock, and what is observed of it in the end."""

import json
from typing import Any

import pytest

from preflight.model.measure import End, Member, Observation, Scope, TestOutcome, kept_waiting
from preflight.probe.messages import Ended, Entered, Failed, Reached, Ready, Result, read
from preflight.probe.observe import absent, observe
from preflight.probe.operations.bandwidth import algbw, busbw
from preflight.probe.operations.operation import Operation
from preflight.probe.round_state import GRACE, SLACK, TURN, RoundState
from preflight.probe.rounds import RankGroup, Round
from preflight.probe.timeouts.deadlines import late

DEADLINE = 60.0
STAGES = ("spawned", "torch", "backend", "device", "store", "peers", "communicator")
TESTS = (Operation("all_reduce", "float32", 1 << 20), Operation("broadcast", "int32", 8, root=1))


def group(name: str = "g", ranks: int = 4, tests: tuple[Operation, ...] = TESTS) -> RankGroup:
    """Ranks 0 and 1 on host a, 2 and 3 on host b."""
    members = tuple(Member("ab"[rank * 2 // ranks], rank % 2, rank) for rank in range(ranks))
    return RankGroup(name, members, tests)


class Play:
    """A round with one line of time; every rank's words come from its own host."""

    def __init__(self, *groups: RankGroup, lanes: int = 8) -> None:
        self.round = Round("r1", groups or (group(),), lanes)
        self.watch = RoundState(self.round, DEADLINE, 0.0)
        self.now = 0.0

    def hosts(self, name: str) -> list[str]:
        return [member.host for g in self.round.groups if g.name == name for member in g.members]

    def reach(self, stage: str, *ranks: int, name: str = "g") -> None:
        for rank in ranks or range(len(self.hosts(name))):
            for reached in STAGES[: STAGES.index(stage) + 1]:
                self.watch.take(self.hosts(name)[rank], Reached("n", name, rank, reached), self.now)

    def enter(self, test: int, *ranks: int, name: str = "g") -> None:
        for rank in ranks or range(len(self.hosts(name))):
            self.watch.take(self.hosts(name)[rank], Entered("n", name, rank, test), self.now)

    def result(self, test: int, *ranks: int, name: str = "g", seconds: float = 0.5, **more: Any) -> None:
        values = {"wrong": 0, "first": "", "suspect": None, **more}
        times = [] if "refused" in more else [seconds]
        self.enter(test, *ranks, name=name)
        for rank in ranks or range(len(self.hosts(name))):
            self.watch.take(self.hosts(name)[rank], Result("n", name, rank, test, times, **values), self.now)

    def end(self, how: End, *ranks: int, name: str = "g", error: str = "", state: str = "", printed: str = "") -> None:
        for rank in ranks or range(len(self.hosts(name))):
            host = self.hosts(name)[rank]
            if how is End.CLOSED:
                self.watch.take(host, Reached("n", name, rank, "closed"), self.now)
            self.watch.take(host, Ended("n", name, rank, how, error, state, printed), self.now)

    def orders(self) -> list[tuple[str, str]]:
        return [(order.do, order.group.name) for order in self.watch.orders(self.now)]

    def seen(self) -> list[Observation]:
        assert self.watch.over
        return observe("r1", self.watch.groups, late("gloo", DEADLINE))


def outcomes(play: Play) -> list[str]:
    return [observation.test.outcome.value for observation in play.seen()]


def missing(observation: Observation) -> list[int]:
    return [view.member.rank for view in kept_waiting(observation)]


def test_a_healthy_round_passes_with_time_and_bandwidth_of_the_slowest_rank() -> None:
    play = Play()
    play.reach("communicator")
    play.result(0, 0, 1, 2)
    play.result(0, 3, seconds=2.0)
    play.result(1)
    play.end(End.CLOSED)
    assert play.orders() == []
    assert outcomes(play) == ["pass", "pass", "pass"]
    test = play.seen()[1].test
    assert (test.id, test.stage, test.seconds) == ("r1-1", "closed", 2.0)
    assert test.algbw_GBps == pytest.approx((1 << 20) / 2e9)
    assert test.busbw_GBps == pytest.approx(1.5 * (1 << 20) / 2e9)


def test_a_rank_that_dies_is_the_one_that_was_missing_and_the_rest_is_stopped_after_a_grace() -> None:
    play = Play()
    play.reach("communicator")
    play.enter(0)
    play.now = 1.0
    play.end(End.KILLED, 2, error="signal 9", printed="line one\nlast \x1b[31mwords\n")
    play.end(End.ERROR, 0, 1, error="RuntimeError: Connection closed by peer")
    assert play.orders() == []
    play.now += GRACE + 0.1
    assert play.orders() == [("stop", "g")]
    assert play.orders() == [], "once"
    play.end(End.STOPPED, 3, state="S")
    assert outcomes(play) == ["pass", "fail", "not_run"]
    failed = play.seen()[1]
    assert missing(failed) == [2]
    assert failed.ranks[2].error == "signal 9, last line of output: last [31mwords"
    assert [view.stage for view in failed.ranks] == ["iteration"] * 4


def test_a_stopped_process_is_told_from_those_that_wait_for_it() -> None:
    play = Play()
    play.reach("communicator")
    play.enter(0)
    play.now = DEADLINE + 1
    play.end(End.OVERDUE, 3, state="T")
    play.end(End.STOPPED, 0, 1, 2, state="S")
    assert outcomes(play) == ["pass", "hang", "not_run"]
    assert missing(play.seen()[1]) == [3]


def test_a_rank_that_stays_behind_is_named_with_the_stage_it_reached() -> None:
    play = Play()
    play.reach("store", 0, 1, 3)
    play.reach("backend", 2)
    play.now = DEADLINE + 1
    play.end(End.OVERDUE, 2, state="S")
    play.end(End.STOPPED, 0, 1, 3, state="S")
    assert outcomes(play) == ["hang", "not_run", "not_run"]
    (view,) = kept_waiting(play.seen()[0])
    assert (view.member.rank, view.stage) == (2, "backend")


def test_a_rank_that_never_entered_the_test_is_told_from_those_inside() -> None:
    play = Play()
    play.reach("communicator")
    play.enter(0, 0, 1, 3)
    play.now = DEADLINE + 1
    play.end(End.OVERDUE, 0, 1, 2, 3, state="S")
    assert missing(play.seen()[1]) == [2]


def test_an_error_of_its_own_before_the_others_are_met_names_the_rank() -> None:
    play = Play()
    play.reach("backend", 1)
    play.reach("store", 0, 2, 3)
    play.end(End.ERROR, 1, error="RuntimeError: device busy")
    play.now = GRACE + 1
    assert play.orders() == [("stop", "g")]
    play.end(End.STOPPED, 0, 2, 3)
    assert outcomes(play) == ["fail", "not_run", "not_run"]
    assert missing(play.seen()[0]) == [1]


def test_the_only_rank_with_an_error_is_named_while_the_others_just_waited() -> None:
    play = Play()
    play.reach("peers")
    play.end(End.ERROR, 2, error="The network port is down")
    play.now = GRACE + 1
    assert play.orders() == [("stop", "g")]
    play.end(End.STOPPED, 0, 1, 3, state="S")
    assert missing(play.seen()[0]) == [2]


def test_errors_of_several_ranks_name_nobody_because_one_may_follow_from_another() -> None:
    play = Play()
    play.reach("peers")
    play.end(End.ERROR, 1, 2, error="Connection closed by peer")
    play.now = GRACE + 1
    assert play.orders() == [("stop", "g")]
    play.end(End.STOPPED, 0, 3, state="S")
    assert missing(play.seen()[0]) == []


def test_when_all_are_equally_far_nobody_is_named() -> None:
    play = Play()
    play.reach("peers")
    play.now = DEADLINE
    play.end(End.ERROR, error="RuntimeError: Connect timeout")
    assert outcomes(play) == ["hang", "not_run", "not_run"], "the backend's own time-out is a hang"
    assert missing(play.seen()[0]) == []


def test_the_vendors_cause_comes_before_its_bookkeeping() -> None:
    play = Play()
    play.reach("peers")
    preamble = "RuntimeError: HCCL function error\n[ERROR] 2026-01-01 ERR02200\n[PID: 1] "
    play.end(End.ERROR, error=preamble + "Some_Title(EI0006): no answer. Reason: wait timeout")
    assert play.seen()[0].ranks[0].error == "Some_Title(EI0006): no answer. Reason: wait timeout"


def test_a_lost_host_ends_its_own_ranks_and_they_are_named() -> None:
    play = Play()
    play.reach("communicator")
    play.enter(0)
    play.watch.lose("b", "b: the connection broke", 1.0)
    play.now = 1.0 + GRACE + 0.1
    assert play.orders() == [("stop", "g")]
    play.end(End.STOPPED, 0, 1)
    assert outcomes(play) == ["pass", "fail", "not_run"]
    assert missing(play.seen()[1]) == [2, 3]
    assert play.seen()[1].ranks[3].error == "b: the connection broke"


def test_an_agent_that_falls_silent_does_not_hold_the_round_for_ever() -> None:
    play = Play()
    play.reach("communicator")
    play.enter(0)
    play.now = DEADLINE + SLACK - 1
    assert play.orders() == [], "agents end what is late themselves"
    play.now = DEADLINE + SLACK + 1
    assert play.orders() == []
    assert play.watch.over
    assert {view.end for view in play.seen()[1].ranks} == {End.LOST}


def test_a_stop_that_no_agent_confirms_ends_the_ranks_all_the_same() -> None:
    play = Play()
    play.reach("communicator")
    play.end(End.EXITED, 0)
    play.now = GRACE + 1
    assert play.orders() == [("stop", "g")]
    play.now += SLACK + 1
    play.orders()
    assert play.watch.over


def test_a_host_speaks_for_its_own_ranks_only_and_not_after_their_end() -> None:
    play = Play()
    play.watch.take("b", Reached("n", "g", 0, "device"), 1.0)
    play.watch.take("a", Reached("n", "g", 99, "device"), 1.0)
    play.watch.take("a", Reached("n", "elsewhere", 0, "device"), 1.0)
    assert {rank.stage for rank in play.watch.groups[0].ranks} == {"none"}
    play.end(End.EXITED, 0)
    play.watch.take("a", Ended("n", "g", 0, End.CLOSED, "", "", ""), 2.0)
    assert play.watch.groups[0].ranks[0].end is End.EXITED


def test_pairs_take_turns_test_by_test_those_behind_first() -> None:
    one, two = group("one", 2, TESTS[:1] * 2), group("two", 2, TESTS[:1] * 2)
    play = Play(one, two, lanes=1)
    play.reach("communicator", name="one")
    assert play.orders() == [], "the other is still coming together"
    play.reach("communicator", name="two")
    assert play.orders() == [("go", "one")]
    assert play.orders() == []
    play.result(0, name="one")
    assert play.orders() == [("go", "two")]
    play.result(0, name="two")
    assert play.orders() == [("go", "one")]
    play.result(1, name="one")
    assert play.orders() == [("go", "two")]


def test_a_pair_that_hangs_keeps_the_next_waiting_only_so_long() -> None:
    one, two, three = (group(name, 2, TESTS[:1]) for name in ("one", "two", "three"))
    play = Play(one, two, three, lanes=1)
    play.reach("communicator", name="one")
    play.reach("communicator", name="two")
    play.reach("peers", name="three")
    play.now = TURN + 0.1
    assert play.orders() == [("go", "one")], "the third may never come together"
    play.now += TURN + 0.1
    assert play.orders() == [("go", "two")], "the first may never come back"


def test_waiting_for_a_turn_is_not_being_late() -> None:
    one, two = group("one", 2, TESTS[:1]), group("two", 2, TESTS[:1])
    play = Play(one, two, lanes=1)
    play.reach("communicator", name="one")
    play.reach("communicator", name="two")
    play.orders()
    play.now = DEADLINE + SLACK - 1
    play.result(0, name="one")
    play.end(End.CLOSED, name="one")
    play.now = DEADLINE + SLACK + 1
    assert play.orders() == [("go", "two")]
    play.result(0, name="two")
    play.end(End.CLOSED, name="two")
    assert set(outcomes(play)) == {"pass"}


def test_wrong_values_are_counted_and_a_root_that_everybody_got_them_from_is_named() -> None:
    play = Play()
    play.reach("communicator")
    play.result(0, 0, 1, 2)
    play.result(0, 3, wrong=7, first="index 5 of 9: found 1, expected 2")
    play.result(1, 1)
    play.result(1, 0, 2, 3, wrong=2, first="index 0 of 2: found 0, expected 1", suspect=1)
    play.end(End.CLOSED)
    assert outcomes(play) == ["pass", "wrong_data", "wrong_data"]
    _, reduced, cast = play.seen()
    assert (reduced.test.wrong_values, reduced.ranks[3].suspect_rank) == (7, None)
    assert cast.test.wrong_values == 6
    assert {view.suspect_rank for view in cast.ranks if view.wrong_values} == {1}


@pytest.mark.parametrize("op", ["broadcast", "all_gather", "send_recv"])
def test_a_source_is_named_only_if_nobody_got_its_data_right(op: str) -> None:
    play = Play(group(tests=(Operation(op, "float32", 64, 1),) * 2))
    play.reach("communicator")
    wrong = [0, 2] if op == "send_recv" else [0, 1, 2]  # 2 and 0 are the neighbours of 3
    play.result(0, *({0, 1, 2, 3} - {*wrong}))
    play.result(0, *wrong, wrong=1, suspect=3)
    play.result(1, 1, 2, 3)
    play.result(1, 0, wrong=1, suspect=1)
    play.end(End.CLOSED)
    _, everywhere, once = play.seen()
    assert {view.suspect_rank for view in everywhere.ranks} == {3, None}
    assert {view.suspect_rank for view in once.ranks} == {None}


def test_an_operation_that_torch_does_not_have_is_nobody_s_fault() -> None:
    play = Play()
    play.reach("communicator")
    play.result(0, refused="this torch has no\nall_gather_single")
    play.result(1)
    play.end(End.CLOSED)
    assert outcomes(play) == ["pass", "refused", "pass"]
    assert {view.error for view in play.seen()[1].ranks} == {"this torch has no all_gather_single"}
    assert kept_waiting(play.seen()[1]) == ()


def test_a_rank_that_does_not_leave_well_is_seen_though_its_tests_passed() -> None:
    play = Play()
    play.reach("communicator")
    play.result(0)
    play.result(1)
    play.end(End.CLOSED, 0, 1, 2)
    play.now = DEADLINE + 1
    play.end(End.OVERDUE, 3, state="D")
    assert outcomes(play) == ["pass", "pass", "pass", "hang"]
    assert play.seen()[-1].test.op == "close"
    assert missing(play.seen()[-1]) == [3]


def test_hosts_without_an_agent_are_named_in_the_roll_call() -> None:
    called = absent(group().members, {"b": ("spawned", "ModuleNotFoundError: No module named 'torch'")}, {})
    assert called.test.outcome is TestOutcome.FAIL
    assert missing(called) == [2, 3]
    assert kept_waiting(called)[0].stage == "spawned"


NONCE = "5f2a"
RESULT = {"at": "result", "nonce": NONCE, "group": "g", "rank": 0, "test": 0, "seconds": [0.1], "wrong": 0,
          "first": "", "suspect": None}  # fmt: skip


REACHED = {"at": "stage", "nonce": NONCE, "group": "g", "rank": 0, "stage": "torch"}
READY = {
    "at": "ready",
    "nonce": NONCE,
    "torch": "2.1",
    "nic": "eth0",
    "address": "10.0.0.1",
    "store": 29500,
    "cores": 8,
}
FAILED = {"at": "failed", "nonce": NONCE, "stage": "spawned", "error": "no torch"}


def test_a_line_with_the_nonce_is_read() -> None:
    for line, kind in ((RESULT, Result), (REACHED, Reached), (FAILED, Failed), (READY, Ready)):
        assert isinstance(read(json.dumps(line).encode(), NONCE), kind)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Welcome to node01",
        b"\x00\xff\xfe" + NONCE.encode(),
        json.dumps({**RESULT, "nonce": "another run"}).encode(),
        json.dumps({**RESULT, "nonce": "another run", "first": NONCE}).encode(),
        json.dumps({**RESULT, "at": "verdict"}).encode(),
        json.dumps({**RESULT, "rank": -1}).encode(),
        json.dumps({**RESULT, "rank": "0"}).encode(),
        json.dumps({**REACHED, "stage": "the moon"}).encode(),
        json.dumps({**FAILED, "stage": ""}).encode(),
        json.dumps({**FAILED, "stage": "torch\n"}).encode(),
        json.dumps({**RESULT, "seconds": ["fast"]}).encode(),
        json.dumps({**RESULT, "seconds": [1e308]}).encode(),
        json.dumps({**RESULT, "wrong": 1 << 70}).encode(),
        json.dumps({**RESULT, "first": "x" * 100_000}).encode(),
        json.dumps({**READY, "address": "node01"}).encode(),
        json.dumps({**READY, "address": "10.0.0.256"}).encode(),
        json.dumps({**READY, "store": 0}).encode(),
        json.dumps({**READY, "store": 65536}).encode(),
        json.dumps(RESULT).encode()[:-3],
        b"[" * 10_000 + NONCE.encode(),
    ],
)
def test_whatever_else_a_host_prints_is_no_message(line: bytes) -> None:
    assert read(line, NONCE) is None


def test_bandwidths_are_those_of_nccl_tests() -> None:
    assert algbw(10**9, 0.5) == 2.0
    assert busbw("all_reduce", 10**9, 0.5, 4) == 3.0
    assert busbw("broadcast", 10**9, 0.5, 4) == 2.0
    assert busbw("all_reduce", 10**9, 0.5, 1) == 0.0


def test_when_the_run_s_time_is_spent_what_was_not_done_was_not_run_and_nobody_is_blamed() -> None:
    play = Play()
    play.reach("communicator")
    play.result(0)
    play.enter(1, 0, 1)
    assert [order.do for order in play.watch.cut(30.0)] == ["stop"]
    assert outcomes(play) == ["pass", "pass", "not_run"]
    assert [missing(seen) for seen in play.seen()] == [[], [], []]


def test_a_device_alone_meets_nobody_and_is_ready_when_it_is_open() -> None:
    test = Operation("matmul", "float32", 1 << 20)
    play = Play(RankGroup("g", (Member("a", 3, 0),), (test,), Scope.DEVICE))
    play.reach("device")
    play.result(0)
    play.end(End.CLOSED)
    assert outcomes(play) == ["pass", "pass"]
    assert {seen.test.scope for seen in play.seen()} == {Scope.DEVICE}
