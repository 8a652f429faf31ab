"""Observations from the state of a round's groups. Pure."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from preflight.model.measure import STAGES, End, Meeting, Member, Observation, RankView, TestOutcome, TestResult
from preflight.probe.messages import Result
from preflight.probe.operations.bandwidth import algbw, busbw
from preflight.probe.operations.local_tests import ALONE, COPIES, tflops
from preflight.probe.operations.operation import Operation
from preflight.probe.round_state import GroupState, RankState, clean_lines

_Absent = Mapping[str, tuple[str, str]]
_MEETING = Operation("init", "", 0)
_MOVED = ("broadcast", "scatter", "all_gather", "all_to_all", "send_recv")
_LEAVING = Operation("close", "", 0)
_SPARE = 0.2  # seconds that a rank must have waited longer than those that gave up, before its silence counts


def observe(round_: str, groups: Iterable[GroupState], late: float) -> list[Observation]:
    """Return all tests of a round that is over, with ids `<round_>-<number>`.

    `late`: seconds of waiting after which a rank's error is its backend's own timeout. Each group has `init`, its tests
    in order, and `close` only if some rank did not leave cleanly after the last one.
    """
    parts = [
        (_with_gave_up(part, _gave_up(state, late)), state.group.scope)
        for state in groups
        for part in _observe(state, late)
    ]
    return [
        replace(part, test=replace(part.test, id=f"{round_}-{number}", scope=scope))
        for number, (part, scope) in enumerate(parts)
    ]


def absent(members: Sequence[Member], why: _Absent, unheard: _Absent) -> Observation:
    """Return the roll-call as an observation.

    Hosts in `why` (stage reached, sentence) gave no agent. Those in `unheard` might have, if there had been time. All
    others gave one.
    """

    def view(member: Member) -> RankView:
        if member.host in why:
            return RankView(member, *why[member.host], end=End.LOST)
        if member.host in unheard:
            return RankView(member, *unheard[member.host], end=End.CUT)
        return RankView(member, "torch")

    outcome = TestOutcome.FAIL if why else TestOutcome.NOT_RUN
    return _observation(_MEETING, outcome, tuple(map(view, members)), id_="r0-0")


def with_held_devices(
    observations: Sequence[Observation], settled: Mapping[tuple[str, int], tuple[bool, str]]
) -> list[Observation]:
    """Return the observations, with the devices of killed workers that are still held.

    `settled`: (host, device) of the killed worker → (still held, why that is not known).
    """

    def with_device(view: RankView) -> RankView:
        held, error = settled.get((view.member.host, view.member.device), (False, ""))
        return replace(view, held=held or view.held, held_error=error) if held or error else view

    return [_with_views(observation, with_device) for observation in observations]


def _with_views(observation: Observation, change: Callable[[RankView], RankView]) -> Observation:
    return replace(observation, ranks=tuple(map(change, observation.ranks)))


def with_meetings(
    observations: Sequence[Observation], meetings: Mapping[tuple[Member, ...], Meeting]
) -> list[Observation]:
    """Return the observations with meetings. `meetings`: members of a group → where they met."""
    return [replace(observation, meeting=meetings.get(observation.test.members)) for observation in observations]


def with_agent_output(
    observations: Iterable[Observation], printed: Callable[[str], Sequence[str]]
) -> list[Observation]:
    """Return the observations, with the output of agents at their start for ranks that never opened their device.

    Only the shell reports a setup line that fails. `printed` returns a host's lines.
    """

    def with_output(view: RankView) -> RankView:
        if view.end is End.CLOSED or STAGES.index(view.stage) >= STAGES.index("device"):
            return view
        lines = clean_lines(printed(view.member.host))
        return replace(view, logs=(*(f"printed at the start: {line}" for line in lines), *view.logs))

    return [_with_views(observation, with_output) for observation in observations]


def _observe(state: GroupState, late: float) -> Iterator[Observation]:
    """Yield the tests of a group. After a failure, later tests were not run."""
    failure = _failure(state, late)
    views = tuple(replace(_view(rank, rank.stage), way=rank.way) for rank in state.ranks)
    is_broken = not state.connected
    yield _observation(_MEETING, failure if is_broken else TestOutcome.PASS, views)
    for number, test in enumerate(state.group.tests):
        views = tuple(_view_of_test(rank, number) for rank in state.ranks)
        if is_broken:
            yield _observation(test, TestOutcome.NOT_RUN, views)
        elif not state.has_results(number):
            is_broken = True
            yield _observation(test, failure, views)
        else:
            yield _measurement(test, state.ranks, number, views)
    if not is_broken and not state.all_closed:
        views = tuple(_view(rank, _last_stage(rank)) for rank in state.ranks)
        yield _observation(_LEAVING, failure, views)


def _last_stage(rank: RankState) -> str:
    """Return the stage of a rank that has done its tests."""
    return "closed" if rank.stage == "closed" else "values"


def _failure(state: GroupState, late: float) -> TestOutcome:
    """Return the outcome of the test that a group did not complete."""
    if state.failed is None and any(rank.end is End.CUT for rank in state.ranks):
        return TestOutcome.NOT_RUN
    return TestOutcome.HANG if _hangs(state, late) else TestOutcome.FAIL


def _hangs(state: GroupState, late: float) -> bool:
    return any(rank.end is End.OVERDUE or (rank.end is End.ERROR and rank.waited > late) for rank in state.ranks)


def _gave_up(state: GroupState, late: float) -> set[Member]:
    """Return the ranks that their backend's timeout ended, well before killed ranks had waited as long."""
    killed = min((rank.waited for rank in state.ranks if rank.end in (End.OVERDUE, End.STOPPED)), default=0.0)
    return {rank.member for rank in state.ranks if rank.end is End.ERROR and late < rank.waited <= killed - _SPARE}


def _with_gave_up(observation: Observation, members: set[Member]) -> Observation:
    views = tuple(replace(view, gave_up=True) if view.member in members else view for view in observation.ranks)
    return replace(observation, ranks=views)


def _view(rank: RankState, stage: str) -> RankView:
    return RankView(
        rank.member,
        stage,
        rank.error,
        end=rank.end,
        state=rank.state,
        held=rank.stays,
        present=rank.present,
        missing=rank.missing,
        connecting=rank.connecting,
        logs=rank.logs,
    )


def _view_of_test(rank: RankState, number: int) -> RankView:
    result = rank.results.get(number)
    if result is None:
        is_inside = rank.entered == number
        # Later stages than this belong to earlier tests.
        stage = rank.test_stage if is_inside else min(rank.stage, "communicator", key=STAGES.index)
        return _view(rank, stage)
    if not result.seconds:
        return replace(
            _view(rank, "communicator"), error=" ".join(result.refused.split()) or "the rank returned no times"
        )
    return replace(
        _view(rank, _last_stage(rank)),
        seconds=statistics.median(result.seconds),
        wrong_values=result.wrong,
        first_wrong=result.first,
        suspect_rank=result.suspect,
        on_host=result.on_host,
    )


def _measurement(test: Operation, ranks: Sequence[RankState], number: int, views: tuple[RankView, ...]) -> Observation:
    """Return a test that all ranks have done. Its time is that of the slowest rank, iteration by iteration."""
    if not all(rank.results[number].seconds for rank in ranks):
        return _observation(test, TestOutcome.REFUSED, views)
    if test.op in ALONE:
        return _device_test(test, ranks[0].results[number], views[0])
    iterations = zip(*(rank.results[number].seconds for rank in ranks), strict=False)
    slowest = list(map(max, iterations))
    seconds = statistics.median(slowest)
    views = _confirm_suspects(test, views)
    wrong = any(view.wrong_values for view in views)
    observation = _observation(test, TestOutcome.WRONG_DATA if wrong else TestOutcome.PASS, views)
    if seconds <= 0:
        return observation
    return replace(
        observation,
        test=replace(
            observation.test,
            seconds=seconds,
            p99_seconds=_p99(slowest),
            algbw_GBps=algbw(test.bytes, seconds) if test.bytes else None,
            busbw_GBps=busbw(test.op, test.bytes, seconds, len(ranks)) if test.bytes else None,
        ),
    )


def _p99(times: Sequence[float]) -> float | None:
    """Return the least time that 99 % of several iterations did not exceed: of fewer than 100, the longest."""
    return sorted(times)[math.ceil(0.99 * len(times)) - 1] if len(times) > 1 else None


def _device_test(test: Operation, result: Result, view: RankView) -> Observation:
    """Return a device's test by itself, with as many bytes as it took."""
    sized_test = replace(test, bytes=min(result.bytes or test.bytes, test.bytes))
    outcome = TestOutcome.WRONG_DATA if result.wrong else TestOutcome.PASS
    observation = _observation(sized_test, outcome, (view,))
    seconds = statistics.median(result.seconds)
    if seconds <= 0:
        return observation
    measured = replace(observation.test, seconds=seconds, p99_seconds=_p99(result.seconds))
    if test.op in COPIES:
        return replace(observation, test=replace(measured, algbw_GBps=algbw(sized_test.bytes, seconds)))
    return replace(observation, test=replace(measured, tflops=tflops(sized_test.dtype, sized_test.bytes, seconds)))


def _confirm_suspects(test: Operation, views: tuple[RankView, ...]) -> tuple[RankView, ...]:
    """Return the views. Moved data keeps its suspect only if it was wrong at all receivers, at least two.

    Otherwise the path or the receiver may be at fault. Data that one rank gathers is wrong in one part and right in the
    others.
    """
    if test.op not in _MOVED:
        return views
    wrong_at = defaultdict(list)
    for view in views:
        if view.suspect_rank is not None and view.suspect_rank != view.member.rank:
            wrong_at[view.suspect_rank].append(view)
    receivers = min(2, len(views) - 1) if test.op == "send_recv" else len(views) - 1
    sources = {source for source, wrong_views in wrong_at.items() if len(wrong_views) == receivers > 1}
    return tuple(view if view.suspect_rank in sources else replace(view, suspect_rank=None) for view in views)


def _observation(test: Operation, outcome: TestOutcome, views: tuple[RankView, ...], id_: str = "") -> Observation:
    result = TestResult(
        id=id_,
        op=test.op,
        dtype=test.dtype,
        bytes=test.bytes,
        root=test.root,
        reduction=test.reduction,
        form=test.form,
        members=tuple(view.member for view in views),
        outcome=outcome,
        stage=min((view.stage for view in views), key=STAGES.index),
        wrong_values=sum(view.wrong_values for view in views),
    )
    return Observation(result, views)
