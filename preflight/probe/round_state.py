"""State of a round, from messages of agents and the clock: stages of ranks, turns of groups, and timeouts."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from preflight.facts.redaction.redact import redact
from preflight.model.measure import STAGES, End, Member, Sending
from preflight.model.text import one_line
from preflight.probe.messages import Ended, Entered, Killed, RankMessage, Reached, Result, Sends, Waits
from preflight.probe.rounds import RankGroup, Round
from preflight.probe.timeouts.deadlines import hurried

GRACE = 3.0  # seconds that the others of a group get for their own messages, once one has failed
SLACK = 5.0  # seconds on top of a deadline for the message of the agent, which kills at the deadline
DYING = 10.0  # seconds for a process to end after SIGKILL: its pinned and mapped memory is given back first
CLOSING = 15.0  # seconds for a rank to end once most ranks of its group have
TURN = 5.0  # seconds after which a group no longer delays the next one

# CANN's errors: after lines of bookkeeping, "Title(EI0006): what happened. Reason: …"; older ones "EI0006: <time> …".
_VENDOR_CAUSE = re.compile(r"\w+\(E[A-Z]\d{4}\): |\bE[A-Z]\d{4}: ")

_BACKEND = STAGES.index("backend")  # after this stage a rank opens its device
_DEVICE, _COMMUNICATOR = STAGES.index("device"), STAGES.index("communicator")


@dataclass
class RankState:
    """State of one rank, as far as it is known. Times are seconds of a monotonic clock."""

    member: Member
    last: float  # time of its last message
    meets: bool = True  # it has to meet others before it can begin with the tests
    stage: str = "none"
    present: int | None = None  # ranks that it saw at the meeting place, while it waited for others there
    missing: tuple[int, ...] = ()
    entered: int = -1  # the last test begun
    test_stage: str = ""  # its stage in that test: warm-up or iteration
    results: dict[int, Result] = field(default_factory=dict)
    end: End | None = None
    ended: float = 0.0
    waited: float = 0.0  # seconds between its last message and its end, or SIGKILL
    error: str = ""
    state: str = ""
    connecting: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    killed: End | None = None  # the reason, if its agent has sent it SIGKILL
    killed_at: float = 0.0
    stays: bool = False  # it survived SIGKILL, and keeps its device
    way: Sending | None = None

    @property
    def connected(self) -> bool:
        return STAGES.index(self.stage) >= (_COMMUNICATOR if self.meets else _DEVICE)

    def take_kill(self, message: Killed, end: End, now: float) -> None:
        """Note SIGKILL from its agent. The first message counts."""
        if not self.killed:
            self.killed, self.killed_at, self.state = end, now, message.state[:1]
            self.connecting = tuple(map(one_line, message.connecting))

    def take_end(self, message: Ended, end: End, now: float) -> None:
        """Note its end as its agent reports it."""
        self.finish(end, _sentence(message), now)
        self.state = message.state[:1]
        self.connecting = tuple(map(one_line, message.connecting))
        self.logs = clean_lines(message.logs)

    def finish(self, end: End, error: str, now: float) -> None:
        self.end, self.error, self.ended = end, error, now
        self.waited = (self.killed_at if self.killed else now) - self.last


@dataclass
class GroupState:
    """State of a group and of its ranks, in the order of their numbers."""

    group: RankGroup
    ranks: list[RankState]
    granted: int = 0  # tests that it may run so far, if groups take turns
    granted_at: float = 0.0  # time of the last order to run one
    stopped: float | None = None  # time of the order to stop
    hurried: bool = False  # stopped because it took far longer than the others

    @property
    def over(self) -> bool:
        return all(rank.end for rank in self.ranks)

    @property
    def all_closed(self) -> bool:
        return all(rank.end is End.CLOSED for rank in self.ranks)

    @property
    def mostly_closed(self) -> bool:
        """True if at least half of its ranks have run all tests and ended, so that the others have only to end, too."""
        return 2 * sum(rank.end is End.CLOSED for rank in self.ranks) >= len(self.ranks)

    @property
    def stopped_as(self) -> End:
        """End of the ranks that are ordered to stop."""
        return End.OVERDUE if self.hurried else End.STOPPED

    def end(self, reported: str) -> End:
        """Return a rank's end from the one that its agent reports."""
        return self.stopped_as if reported == End.STOPPED else End(reported)

    @property
    def done(self) -> int:
        """The number of tests that all its ranks have done."""
        return min(len(rank.results) for rank in self.ranks)

    @property
    def sound(self) -> bool:
        """True if none of its ranks has ended."""
        return not any(rank.end for rank in self.ranks)

    @property
    def connected(self) -> bool:
        return all(rank.connected for rank in self.ranks)

    @property
    def gathering(self) -> bool:
        """True if its ranks are still on their way to the communicator, and may get there."""
        return self.sound and not self.connected

    @property
    def ready(self) -> bool:
        """True if it may run its next test, as far as its own ranks are concerned."""
        return self.sound and not self.gathering and self.granted == self.done < len(self.group.tests)

    def has_results(self, test: int) -> bool:
        """Return whether all ranks have sent their results of a test."""
        return all(test in rank.results for rank in self.ranks)

    def measures(self, now: float) -> bool:
        """Return whether it is in a test that other groups should not disturb."""
        return self.sound and self.granted > self.done and now - self.granted_at < TURN

    def grant(self, now: float) -> None:
        """Let its ranks run their next test."""
        self.granted += 1
        self.granted_at = now
        for rank in self.ranks:
            rank.last = now

    @property
    def failed(self) -> float | None:
        """The time at which the first of its ranks ended badly, or got SIGKILL, which it may survive."""
        bad_ranks = (rank for rank in self.ranks if rank.killed or rank.end not in (None, End.CLOSED, End.CUT))
        return min((rank.killed_at if rank.killed else rank.ended for rank in bad_ranks), default=None)


@dataclass(frozen=True)
class Order:
    """An order to every host of the group: `go` or `stop`."""

    do: str
    group: RankGroup


class RoundState:
    """State of the groups of one round. It knows hosts by name only, and takes the time as a parameter.

    A pair, or a device alone, does not get the whole deadline once others have shown how long the same tests take.
    `earlier`: seconds that these tests took in groups of earlier rounds.
    """

    def __init__(self, round_: Round, deadline: float, now: float, earlier: Sequence[float] = ()) -> None:
        self._round = round_
        self._deadline = deadline
        self._earlier = earlier
        self._alike = len({(group.scope, group.tests) for group in round_.groups}) == 1
        self._began = now
        self._takes_turns = len(round_.groups) > round_.lanes
        self._groups = {
            group.name: GroupState(group, [RankState(member, now, group.meets) for member in group.members])
            for group in round_.groups
        }

    @property
    def groups(self) -> tuple[GroupState, ...]:
        return tuple(self._groups.values())

    @property
    def _ranks(self) -> Iterator[RankState]:
        return (rank for state in self.groups for rank in state.ranks)

    @property
    def takes_turns(self) -> bool:
        return self._takes_turns

    @property
    def over(self) -> bool:
        return all(group.over for group in self.groups)

    def take(self, host: str, message: RankMessage, now: float) -> None:
        """Apply a message about a rank. A host reports on its own ranks only, and on none that has ended."""
        rank = self._running_rank(host, message)
        if rank is None:
            return
        state = self._groups[message.group]
        match message:
            case Waits():
                rank.present, rank.missing = message.present, tuple(message.missing)
                return
            case Killed():
                rank.take_kill(message, state.end(message.end), now)
                return
            case Result(test=test) if test >= len(state.group.tests):
                return
            case Result(test=test):
                rank.results.setdefault(test, message)  # its first message counts
            case Entered():
                rank.entered, rank.test_stage = message.test, message.stage
            case Reached(stage=stage, way=way):
                rank.stage = stage
                rank.way = _sending(way) if way else rank.way
            case Ended():
                rank.take_end(message, state.end(message.end), now)
        rank.last = now

    def _running_rank(self, host: str, message: RankMessage) -> RankState | None:
        """Return the rank that a message is about, if it is of that host, and has not ended."""
        state = self._groups.get(message.group)
        if state is None or message.rank >= len(state.ranks):
            return None
        rank = state.ranks[message.rank]
        return None if rank.member.host != host or rank.end else rank

    def lose(self, host: str, why: str, now: float) -> None:
        """End a host's ranks as lost. Its agent is gone, and with it its ranks, as far as is known."""
        for rank in self._ranks:
            if rank.member.host == host and not rank.end:
                rank.finish(End.LOST, why, now)

    def cut(self, now: float) -> list[Order]:
        """End the round because the run's time is spent. Return orders to stop; answers to them are not awaited."""
        orders = [Order("stop", state.group) for state in self.groups if not state.over]
        for rank in self._ranks:
            if not rank.end:
                rank.finish(End.CUT, "", now)
        return orders

    def orders(self, now: float) -> list[Order]:
        """Return the orders to send to agents now."""
        orders = [Order("go", state.group) for state in self._turns(now)]
        timeout = self._timeout()
        for state in self.groups:
            if state.over:
                continue
            self._give_up_silent(state, now)
            if state.stopped is not None:
                continue
            limit = min(timeout, CLOSING) if state.mostly_closed else timeout
            state.hurried = state.failed is None and self._idle_seconds(state, now) > limit
            if state.hurried or (state.failed is not None and now - state.failed > GRACE):
                state.stopped = now
                orders.append(Order("stop", state.group))
        return orders

    def _timeout(self) -> float:
        """Return the seconds for a step until its group is ordered to stop. The agents stop it at the deadline."""
        if not self._alike:
            return float("inf")
        durations = [*self._earlier, *self.durations]
        scope = self._round.groups[0].scope
        limit = hurried(durations, len(self._groups), scope, self._deadline, first=not self._earlier)
        return limit if limit < self._deadline else float("inf")

    @property
    def durations(self) -> list[float]:
        """Seconds from the beginning of the round to the end of each group that has run all its tests."""
        return [max(rank.ended for rank in state.ranks) - self._began for state in self.groups if state.all_closed]

    def _idle_seconds(self, state: GroupState, now: float) -> float:
        """Return the seconds since any rank of a group made progress, or 0 while the group waits for its turn."""
        if all(self._waits(state, rank) for rank in state.ranks):
            return 0.0
        return now - max(rank.last for rank in state.ranks)

    def _waits(self, state: GroupState, rank: RankState) -> bool:
        """Return whether a rank waits for its group's turn."""
        has_more = state.granted < len(state.group.tests)
        return self._takes_turns and rank.connected and len(rank.results) == state.granted and has_more

    def _turns(self, now: float) -> list[GroupState]:
        """Return the groups that may run their next test: the ones furthest behind, if a lane is free.

        No group may while others still connect, since their work would affect the measurement.
        """
        if not self._takes_turns:
            return []
        if now - self._began < TURN and any(state.gathering for state in self.groups):
            return []
        lanes_left = max(0, self._round.lanes - sum(state.measures(now) for state in self.groups))
        ready = (state for state in self.groups if state.ready)
        chosen = sorted(ready, key=lambda state: state.done)[:lanes_left]
        for state in chosen:
            state.grant(now)
        return chosen

    def _give_up_silent(self, state: GroupState, now: float) -> None:
        """Give up ranks without messages.

        Agents kill at the deadline and report it. A process that survives that stays on its host. An agent that reports
        nothing has lost its host, or the connection to this machine.
        """
        for rank in state.ranks:
            if rank.killed and not rank.end:
                if now - rank.killed_at > DYING:
                    rank.stays = True
                    rank.finish(rank.killed, "", now)
                continue
            if rank.end or self._waits(state, rank):
                continue
            if state.stopped is not None and now - state.stopped > SLACK:
                rank.finish(state.stopped_as, "the host's agent did not confirm the end of the process", now)
            elif now - rank.last > self._deadline + SLACK:
                why = f"the rank and its agent sent no message for {now - rank.last:.0f} s"
                rank.finish(End.LOST, why, now)

    def lost_hosts(self) -> list[tuple[str, str]]:
        """Return the hosts that lost ranks together with their agent, and why."""
        return [(rank.member.host, rank.error) for rank in self._ranks if rank.end is End.LOST]

    def held_devices(self) -> list[tuple[str, int]]:
        """Return host and device of the ranks that held a device and did not leave it by themselves."""
        held = (rank for rank in self._ranks if rank.end is not End.CLOSED and STAGES.index(rank.stage) >= _BACKEND)
        return [(rank.member.host, rank.member.device) for rank in held]

    def waits_for(self) -> RankState | None:
        """Return the rank with the oldest last message of all ranks that have not ended."""
        alive = (rank for rank in self._ranks if not rank.end)
        return min(alive, key=lambda rank: rank.last, default=None)

    def progress(self) -> tuple[int, int]:
        """Return the number of tests that all ranks have done, and of all tests."""
        done = sum(state.done for state in self.groups)
        return done, sum(len(state.group.tests) for state in self.groups)


def _sentence(message: Ended) -> str:
    """Return why a rank ended, on one line. If it could not report that, add the last line that it printed."""
    cause = _VENDOR_CAUSE.search(message.error)
    error = message.error[cause.start() :] if cause else message.error
    words = [one_line(error)] if error else []
    lines = [line for line in message.printed.splitlines() if line.strip()]
    if lines and message.end in (End.KILLED, End.EXITED, End.OVERDUE):
        words.append(f"last line of output: {one_line(lines[-1])}")
    return ", ".join(words)


def _sending(way: Sends) -> Sending:
    return Sending(one_line(way.network), tuple(map(one_line, way.ways)), clean_lines(way.lines))


def clean_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return a host's log lines, each on one line, without secrets."""
    return tuple(redact(one_line(line)) for line in lines)
