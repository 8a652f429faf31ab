"""The state of a round, from what agents say and from the clock: who is where, whose turn it is, who is given up."""

import re
from dataclasses import dataclass, field

from preflight.facts.redaction.redact import redact
from preflight.model.measure import STAGES, End, Member, Scope, Sending
from preflight.probe.messages import Ended, Entered, Killed, RankMessage, Reached, Result, Waits
from preflight.probe.patience import hurried
from preflight.probe.rounds import Group, Round

GRACE = 3.0  # seconds that the others of a group get to say what they saw, once one has failed
SLACK = 5.0  # seconds on top of a deadline for the agent, which kills at the deadline, to say so
DYING = 10.0  # seconds for a process to end after SIGKILL: what it had pinned and mapped is given back first
TURN = 5.0  # seconds after which a group no longer keeps the next one waiting

# CANN's errors: after lines of bookkeeping, "Title(EI0006): what happened. Reason: …"; older ones "EI0006: <time> …".
_VENDOR_CAUSE = re.compile(r"\w+\(E[A-Z]\d{4}\): |\bE[A-Z]\d{4}: ")

_BACKEND = STAGES.index("backend")  # the next thing that a rank does is to open its device
_DEVICE, _COMMUNICATOR = STAGES.index("device"), STAGES.index("communicator")


@dataclass
class RankState:
    """One rank, as far as it was heard of; times are seconds of a monotonic clock."""

    member: Member
    last: float  # of its last word
    meets: bool = True  # others, before it can begin with the tests
    stage: str = "none"
    present: int | None = None  # ranks that it saw where they meet, while it waited for others there
    missing: tuple[int, ...] = ()
    entered: int = -1  # the last test begun
    inside: str = ""  # and how far it is in it: warm-up or iteration
    results: dict[int, Result] = field(default_factory=dict)
    end: End | None = None
    ended: float = 0.0
    waited: float = 0.0  # seconds between its last word and its end, or SIGKILL
    error: str = ""
    state: str = ""
    connecting: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    killed: End | None = None  # its agent has sent it SIGKILL, and why; with it
    killed_at: float = 0.0
    stays: bool = False  # it did not die of that, and keeps its device
    way: Sending | None = None

    @property
    def connected(self) -> bool:
        return STAGES.index(self.stage) >= (_COMMUNICATOR if self.meets else _DEVICE)


@dataclass
class GroupState:
    """A group and its ranks, in the order of their numbers."""

    group: Group
    ranks: list[RankState]
    told: int = 0  # tests it was told to run, where groups take turns
    told_at: float = 0.0  # when it was told the last of them
    stopped: float | None = None  # when it was told to stop
    hurried: bool = False  # because it took far longer than the others

    @property
    def over(self) -> bool:
        return all(rank.end for rank in self.ranks)

    @property
    def well(self) -> bool:
        return all(rank.end is End.CLOSED for rank in self.ranks)

    @property
    def stopped_as(self) -> End:
        """How its ranks end that are told to stop."""
        return End.OVERDUE if self.hurried else End.STOPPED

    @property
    def done(self) -> int:
        """Tests that all its ranks have done."""
        return min(len(rank.results) for rank in self.ranks)

    @property
    def coming(self) -> bool:
        """Its ranks are still on their way to the communicator, and may get there."""
        return not all(rank.connected for rank in self.ranks) and not any(rank.end for rank in self.ranks)

    @property
    def failed(self) -> float | None:
        """When the first of its ranks ended otherwise than well, or got SIGKILL, of which it may not die."""
        bad = (rank for rank in self.ranks if rank.killed or rank.end not in (None, End.CLOSED, End.CUT))
        return min((rank.killed_at if rank.killed else rank.ended for rank in bad), default=None)


@dataclass(frozen=True)
class Order:
    """To every host of the group: `go` or `stop`."""

    do: str
    group: Group


class Watch:
    """Follows the groups of one round. Knows nothing of hosts but their names, and of time but what it is told.

    `hurried`: a pair is not given the whole deadline once half of the others have shown how long their tests take.
    """

    def __init__(self, round_: Round, deadline: float, now: float, *, hurried: bool = False) -> None:
        self._round = round_
        self._deadline = deadline
        self._hurried = hurried and all(
            group.scope is Scope.PAIR and group.tests == round_.groups[0].tests for group in round_.groups
        )
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
    def takes_turns(self) -> bool:
        return self._takes_turns

    @property
    def over(self) -> bool:
        return all(group.over for group in self._groups.values())

    def take(self, host: str, message: RankMessage, now: float) -> None:
        """A rank's word. A host speaks for its own ranks only, and not for those that have ended."""
        state = self._groups.get(message.group)
        if state is None or message.rank >= len(state.ranks):
            return
        rank = state.ranks[message.rank]
        if rank.member.host != host or rank.end:
            return
        match message:
            case Reached(stage=stage, way=way):
                rank.stage = stage
                if way:
                    lines = tuple(redact(clean(line)) for line in way.lines)
                    rank.way = Sending(clean(way.network), tuple(map(clean, way.ways)), lines)
            case Waits():
                rank.present, rank.missing = message.present, tuple(message.missing)
                return
            case Entered():
                rank.entered, rank.inside = message.test, message.stage
            case Result(test=test):
                if test >= len(state.group.tests):
                    return
                rank.results.setdefault(test, message)  # its first word counts
            case Killed():
                if not rank.killed:  # its first word counts
                    end = state.stopped_as if message.end == "stopped" else End.OVERDUE
                    rank.killed, rank.killed_at, rank.state = end, now, message.state[:1]
                    rank.connecting = tuple(map(clean, message.connecting))
                return
            case Ended():
                end = state.stopped_as if message.end is End.STOPPED else message.end
                self._finish(rank, end, _sentence(message), now)
                rank.state = message.state[:1]
                rank.connecting = tuple(map(clean, message.connecting))
                rank.logs = tuple(redact(clean(line)) for line in message.logs)
        rank.last = now

    def lose(self, host: str, why: str, now: float) -> None:
        """A host's agent is gone, and with it, as far as anybody can tell, its ranks."""
        for state in self._groups.values():
            for rank in state.ranks:
                if rank.member.host == host and not rank.end:
                    self._finish(rank, End.LOST, why, now)

    def cut(self, now: float) -> list[Order]:
        """The run's time is spent: whoever is still at work is to be stopped, and nobody waits for the answer."""
        orders = [Order("stop", state.group) for state in self._groups.values() if not state.over]
        for state in self._groups.values():
            for rank in state.ranks:
                if not rank.end:
                    self._finish(rank, End.CUT, "", now)
        return orders

    def _finish(self, rank: RankState, end: End, error: str, now: float) -> None:
        rank.end, rank.error, rank.ended = end, error, now
        rank.waited = (rank.killed_at if rank.killed else now) - rank.last

    def orders(self, now: float) -> list[Order]:
        """What is to be told to agents now."""
        orders = [Order("go", state.group) for state in self._turns(now)]
        patience = self._patience()
        for state in self._groups.values():
            if state.over:
                continue
            self._give_up_silent(state, now)
            if state.stopped is not None:
                continue
            state.hurried = state.failed is None and self._stands_still(state, now) > patience
            if state.hurried or (state.failed is not None and now - state.failed > GRACE):
                state.stopped = now
                orders.append(Order("stop", state.group))
        return orders

    def _patience(self) -> float:
        """Seconds that a step may take before the group is told to stop; its agents stop it at the deadline."""
        if not self._hurried:
            return float("inf")
        took = [max(rank.ended for rank in state.ranks) - self._began for state in self._groups.values() if state.well]
        limit = hurried(took, len(self._groups), self._deadline)
        return limit if limit < self._deadline else float("inf")

    def _stands_still(self, state: GroupState, now: float) -> float:
        """Seconds since any of its ranks has got on; 0 while it waits for its turn."""
        if all(self._waits(state, rank) for rank in state.ranks):
            return 0.0
        return now - max(rank.last for rank in state.ranks)

    def _waits(self, state: GroupState, rank: RankState) -> bool:
        """Whether it waits for its group's turn."""
        more = state.told < len(state.group.tests)
        return self._takes_turns and rank.connected and len(rank.results) == state.told and more

    def _turns(self, now: float) -> list[GroupState]:
        """The groups that may run their next test: where a lane is free, those that are furthest behind.

        Not while others are still coming together: their work would be measured along.
        """
        if not self._takes_turns:
            return []
        sound = [state for state in self._groups.values() if not any(rank.end for rank in state.ranks)]
        if now - self._began < TURN and any(state.coming for state in self._groups.values()):
            return []
        busy = sum(state.told > state.done and now - state.told_at < TURN for state in sound)
        ready = [s for s in sound if not s.coming and s.told == s.done < len(s.group.tests)]
        begin = sorted(ready, key=lambda state: state.done)[: max(0, self._round.lanes - busy)]
        for state in begin:
            state.told += 1
            state.told_at = now
            for rank in state.ranks:
                rank.last = now
        return begin

    def _give_up_silent(self, state: GroupState, now: float) -> None:
        """Agents kill at the deadline and say so; whoever does not die of it stays on its host. An agent that says
        nothing has lost its host, or the way to us."""
        for rank in state.ranks:
            if rank.killed and not rank.end:
                if now - rank.killed_at > DYING:
                    rank.stays = True
                    self._finish(rank, rank.killed, "", now)
                continue
            if rank.end or self._waits(state, rank):
                continue
            if state.stopped is not None and now - state.stopped > SLACK:
                self._finish(rank, state.stopped_as, "its agent did not confirm that it was ended", now)
            elif now - rank.last > self._deadline + SLACK:
                why = f"nothing was heard of it for {now - rank.last:.0f} s, nor of its agent"
                self._finish(rank, End.LOST, why, now)

    def lost(self) -> list[tuple[str, str]]:
        """The hosts that lost ranks together with their agent, and why."""
        ranks = (rank for state in self._groups.values() for rank in state.ranks)
        return [(rank.member.host, rank.error) for rank in ranks if rank.end is End.LOST]

    def not_left(self) -> list[tuple[str, int]]:
        """Host and device of the ranks that had a device in hand and did not leave it by themselves."""
        ranks = (rank for state in self._groups.values() for rank in state.ranks)
        held = (rank for rank in ranks if rank.end is not End.CLOSED and STAGES.index(rank.stage) >= _BACKEND)
        return [(rank.member.host, rank.member.device) for rank in held]

    def waits_for(self) -> RankState | None:
        """Among the ranks that have not ended, the one that was heard of least recently."""
        alive = [rank for state in self._groups.values() for rank in state.ranks if not rank.end]
        return min(alive, key=lambda rank: rank.last, default=None)

    def progress(self) -> tuple[int, int]:
        """Tests that all ranks have done, and all tests."""
        done = sum(state.done for state in self._groups.values())
        return done, sum(len(state.group.tests) for state in self._groups.values())


def _sentence(message: Ended) -> str:
    """Why a rank ended, on one line; where it could not say so itself, with the last line that it printed."""
    cause = _VENDOR_CAUSE.search(message.error)
    error = message.error[cause.start() :] if cause else message.error
    words = [clean(error)] if error else []
    lines = [line for line in message.printed.splitlines() if line.strip()]
    if lines and message.end in (End.KILLED, End.EXITED, End.OVERDUE):
        words.append(f"its last line was: {clean(lines[-1])}")
    return "; ".join(words)


def clean(text: str) -> str:
    """A host's words on one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:500]
