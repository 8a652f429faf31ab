"""From the state of a round's groups to observations. Pure."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from preflight.model.measure import STAGES, End, Member, Observation, RankView, TestOutcome, TestResult
from preflight.probe.bandwidth import algbw, busbw
from preflight.probe.rounds import Collective
from preflight.probe.watch import GroupState, RankState

_MEETING = Collective("init", "", 0)
_LEAVING = Collective("close", "", 0)


def observe(round_: str, groups: Iterable[GroupState], late: float) -> list[Observation]:
    """All tests of a round that is over, with ids `<round_>-<number>`.

    `late`: seconds of waiting after which a rank's error is its backend's own time-out.
    For each group: `init`, its tests in order, and `close` only if some rank did not leave well after the last one.
    """
    parts = [part for group in groups for part in _observe(group, late)]
    return [replace(part, test=replace(part.test, id=f"{round_}-{number}")) for number, part in enumerate(parts)]


def absent(members: Sequence[Member], why: dict[str, tuple[str, str]]) -> Observation:
    """The roll-call: hosts in `why` (stage reached, sentence) gave no agent, all others did."""
    views = tuple(
        RankView(member, *why[member.host], end=End.LOST) if member.host in why else RankView(member, "torch")
        for member in members
    )
    return _observation(_MEETING, TestOutcome.FAIL, views, id_="r0-0")


def _observe(state: GroupState, late: float) -> Iterator[Observation]:
    """Once something did not work, what comes after it was not run."""
    trouble = TestOutcome.HANG if _hangs(state, late) else TestOutcome.FAIL
    views = tuple(_view(rank, rank.stage) for rank in state.ranks)
    broken = not all(rank.connected for rank in state.ranks)
    yield _observation(_MEETING, trouble if broken else TestOutcome.PASS, views)
    for number, test in enumerate(state.group.tests):
        views = tuple(_view_of_test(rank, number) for rank in state.ranks)
        if broken:
            yield _observation(test, TestOutcome.NOT_RUN, views)
        elif any(number not in rank.results for rank in state.ranks):
            broken = True
            yield _observation(test, trouble, views)
        else:
            yield _measured(test, state.ranks, number, views)
    if not broken and any(rank.end is not End.CLOSED for rank in state.ranks):
        yield _observation(_LEAVING, trouble, tuple(_view(rank, rank.stage) for rank in state.ranks))


def _hangs(state: GroupState, late: float) -> bool:
    return any(rank.end is End.OVERDUE or (rank.end is End.ERROR and rank.waited > late) for rank in state.ranks)


def _view(rank: RankState, stage: str) -> RankView:
    return RankView(rank.member, stage, rank.error, end=rank.end, state=rank.state)


def _view_of_test(rank: RankState, number: int) -> RankView:
    result = rank.results.get(number)
    if result is None:
        inside = rank.entered == number
        # A later stage than this belongs to earlier tests.
        stage = "iteration" if inside else min(rank.stage, "communicator", key=STAGES.index)
        return _view(rank, stage)
    return replace(
        _view(rank, "closed" if rank.stage == "closed" else "values"),
        seconds=statistics.median(result.seconds),
        wrong_values=result.wrong,
        first_wrong=result.first,
        suspect_rank=result.suspect,
    )


def _measured(test: Collective, ranks: Sequence[RankState], number: int, views: tuple[RankView, ...]) -> Observation:
    """A test that all ranks have done: its time is that of the slowest rank, iteration by iteration."""
    iterations = zip(*(rank.results[number].seconds for rank in ranks), strict=False)
    seconds = statistics.median(max(times) for times in iterations)
    if test.root is not None:
        views = _blame_root(views, test.root)
    wrong = any(view.wrong_values for view in views)
    observation = _observation(test, TestOutcome.WRONG_DATA if wrong else TestOutcome.PASS, views)
    if seconds <= 0:
        return observation
    return replace(
        observation,
        test=replace(
            observation.test,
            seconds=seconds,
            algbw_GBps=algbw(test.bytes, seconds),
            busbw_GBps=busbw(test.op, test.bytes, seconds, len(ranks)),
        ),
    )


def _blame_root(views: tuple[RankView, ...], root: int) -> tuple[RankView, ...]:
    """When every other rank of at least two got wrong data from a root, the root sent it."""
    others = [view for view in views if view.member.rank != root]
    if len(others) < 2 or not all(view.wrong_values for view in others):
        return views
    return tuple(replace(view, suspect_rank=root) if view.wrong_values else view for view in views)


def _observation(test: Collective, outcome: TestOutcome, views: tuple[RankView, ...], id_: str = "") -> Observation:
    result = TestResult(
        id=id_,
        op=test.op,
        dtype=test.dtype,
        bytes=test.bytes,
        root=test.root,
        members=tuple(view.member for view in views),
        outcome=outcome,
        stage=min((view.stage for view in views), key=STAGES.index),
        wrong_values=sum(view.wrong_values for view in views),
    )
    return Observation(result, views)
