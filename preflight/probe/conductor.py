"""Rounds played by agents: the roll-call, the start of each host's ranks, their watch, and the freeing of devices."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from preflight.model.cluster import Host
from preflight.model.measure import STAGES, Meeting, Member, Observation
from preflight.probe.agents import Agents
from preflight.probe.lines import Gone, HostMessage
from preflight.probe.messages import Message, RankEvent, Ready, Settled
from preflight.probe.observe import observe, with_agent_output, with_held_devices, with_meetings
from preflight.probe.operations.operation import Operation
from preflight.probe.roll_call import RollCall
from preflight.probe.round_state import RoundState
from preflight.probe.rounds import RankGroup, Round
from preflight.probe.timeouts.deadlines import late
from preflight.probe.venue import Venue, place
from preflight.transport.types import Progress, WholeProgress

SETTLE = 45.0  # seconds for a host to report that its devices are free; it gives up after 30
_MUTE = "the host's agent did not report in time whether the device is free"
_TICK = 0.2  # seconds between two checks of the clock

OnProgress = Callable[[Progress], None]
_Settled = dict[tuple[str, int], tuple[bool, str]]  # (host, device) → (still held, why that is not known)


class Conductor:
    """Conductor of the rounds that agents play.

    The parameter `until` of a method is the moment (of the monotonic clock) at which the run has to stop.
    """

    def __init__(self, agents: Agents, backend: str, progress: OnProgress, venue: Venue | None = None) -> None:
        self._agents = agents
        self._venue = venue or Venue()
        self._backend = backend
        self._progress = progress
        self.whole: WholeProgress | None = None  # of the rounds before the current one; set before the first
        self.deadline = 0.0  # seconds that one step of a rank may take; set before the first round
        self._durations: dict[tuple[Operation, ...], list[float]] = defaultdict(list)  # seconds, by a group's tests
        self.ready: dict[str, Ready] = {}
        self.gone: dict[str, tuple[str, str]] = {}  # host → (stage reached, why)
        self.unheard: dict[str, tuple[str, str]] = {}  # the same, for hosts that there was no time for
        self.busy: dict[str, str] = {}  # host → owner of the probe that it is busy with

    @property
    def printed(self) -> Callable[[str], Sequence[str]]:
        """Function from a host to the lines that it printed when its agent began."""
        return self._agents.printed

    def present(self, hosts: Sequence[Host]) -> list[Host]:
        """Return the hosts that have an agent, and have not lost it since."""
        return [host for host in hosts if host.name in self.ready and host.name not in self.gone]

    def roll_call(self, hosts: Sequence[Host], until: float, note: Callable[[str], None] | None = None) -> None:
        """Wait until every host has an agent, has reported why not, or has taken too long.

        `note` gets the messages of hosts for the user.
        """
        call = RollCall([host.name for host in hosts], time.monotonic(), until)
        while not call.over(now := time.monotonic()):
            self._progress(call.progress(now))
            for reply in self._agents.receive(_TICK):
                call.take(reply, time.monotonic())
        call.end(now)
        self.ready, self.gone, self.unheard, self.busy = call.ready, call.gone, call.unheard, call.busy
        if note:
            for text in call.notes:
                note(text)

    def play(self, round_: Round, until: float) -> list[Observation]:
        """Start the round's groups, watch them to their end, and return the observations."""
        durations = self._durations[round_.groups[0].tests]
        watch = RoundState(round_, self.deadline, time.monotonic(), durations)
        for host, (_, why) in self.gone.items():
            watch.lose(host, why, time.monotonic())
        if time.monotonic() < until:
            self._start(round_, watch.takes_turns)
        while not watch.over:
            replies = self._agents.receive(_TICK)
            now = time.monotonic()
            for reply in replies:
                self._take(reply, watch, now)
            for order in watch.cut(now) if now >= until else watch.orders(now):
                self._send(order.group, {"do": order.do, "group": order.group.name})
            self._report(round_, watch, now)
        for host, why in watch.lost_hosts():
            self._lose(host, why)
        durations += watch.durations
        _, total = watch.progress()
        self.whole = self._whole(total, total)
        observations = observe(round_.name, watch.groups, late(self._backend, self.deadline))
        observations = with_agent_output(with_meetings(observations, self._meetings(round_)), self.printed)
        if self._backend == "hccl":
            return with_held_devices(observations, self._settle(watch.held_devices(), until))
        return observations

    def _take(self, reply: HostMessage[Message], watch: RoundState, now: float) -> None:
        match reply.message:
            case Gone(why=why):
                self._lose(reply.host, why)
                watch.lose(reply.host, why, now)
            case RankEvent() as message:
                watch.take(reply.host, message, now)

    def _lose(self, host: str, why: str) -> None:
        self.gone.setdefault(host, ("none", why))

    def _settle(self, killed: Iterable[tuple[str, int]], until: float) -> _Settled:
        """Wait until the devices (host, index) of killed workers are free. Return those that are not known to be free.

        The driver's part of a killed job lives on for about 10 s. A round or a job that takes the device meanwhile gets
        the error that another job runs (EJ0001).
        """
        devices_by_host: dict[str, set[int]] = defaultdict(set)
        for host, device in killed:
            if host not in self.gone:
                devices_by_host[host].add(device)
        self._agents.send(
            {host: [{"do": "settle", "devices": sorted(devices)}] for host, devices in devices_by_host.items()}
        )
        settled: _Settled = {}
        begin, total = time.monotonic(), len(devices_by_host)
        limit = min(SETTLE, until - begin)
        while devices_by_host and (seconds_passed := time.monotonic() - begin) < limit:
            self._progress(
                Progress(
                    done=total - len(devices_by_host),
                    total=total,
                    failed=0,
                    slowest=next(iter(devices_by_host)),
                    seconds=seconds_passed,
                    waiting_for="killed workers to leave their devices",
                    phase="device release",
                )
            )
            for reply in self._agents.receive(_TICK):
                settled |= self._take_settled(reply, devices_by_host)
        return settled | {
            (host, device): (False, _MUTE) for host, devices in devices_by_host.items() for device in devices
        }

    def _take_settled(self, reply: HostMessage[Message], devices_by_host: dict[str, set[int]]) -> _Settled:
        """Return what a host reports about its devices. Remove it from `devices_by_host`, and if it is gone, too."""
        match reply.message:
            case Gone(why=why):
                self._lose(reply.host, why)
                devices_by_host.pop(reply.host, None)
            case Settled(held=held, error=error):
                devices = devices_by_host.pop(reply.host, ())
                return {(reply.host, device): (device in held, error) for device in devices}
        return {}

    def _start(self, round_: Round, takes_turns: bool) -> None:
        """Send each host, in one go, its own ranks of the groups."""
        commands: dict[str, list[dict[str, object]]] = defaultdict(list)
        for group in round_.groups:
            venue = self._venue_of(group)
            for host in group.hosts:
                own_ranks = [{"rank": m.rank, "device": m.device} for m in group.members if m.host == host]
                commands[host].append(
                    {
                        "do": "start",
                        "group": group.name,
                        "size": len(group.members),
                        "meets": group.meets,
                        "deadline": self.deadline,
                        "wait": takes_turns,
                        "workers": own_ranks,
                        "tests": [vars(test) for test in group.tests],
                        **venue,
                    }
                )
        self._agents.send(commands)

    def _venue_of(self, group: RankGroup) -> dict[str, object]:
        """Return the place where a group's ranks meet, as it is sent to workers."""
        first = self.ready[group.members[0].host]
        return self._venue.parameters(group, first.address, first.store)

    def _meetings(self, round_: Round) -> dict[tuple[Member, ...], Meeting]:
        """Return where the groups of a round met, by their members."""
        nics = {host: f"{ready.nic} {ready.address}" for host, ready in self.ready.items()}
        return {
            group.members: Meeting(self._backend, place(self._venue_of(group)), nics)
            for group in round_.groups
            if group.meets
        }

    def _send(self, group: RankGroup, command: dict[str, object]) -> None:
        self._agents.send({member.host: [command] for member in group.members})

    def add_to_plan(self, round_: Round) -> None:
        """Count the tests of a round that was not planned, and that planned ones follow."""
        if self.whole:
            self.whole = replace(self.whole, total=self.whole.total + sum(len(group.tests) for group in round_.groups))

    def _whole(self, done: int, total: int) -> WholeProgress | None:
        """Return the progress of the whole probe, with that of the current round."""
        if self.whole is None:
            return None
        before = self.whole.done
        return replace(self.whole, done=before + done, total=max(self.whole.total, before + total))

    def _report(self, round_: Round, watch: RoundState, now: float) -> None:
        done, total = watch.progress()
        rank = watch.waits_for()
        if rank is None:
            return
        ranks = sum(len(group.members) for group in round_.groups)
        self._progress(
            Progress(
                done=done,
                total=total,
                failed=0,
                slowest=f"{rank.member.host}/{rank.member.device}",
                seconds=now - rank.last,
                waiting_for="its process" if rank.stage == STAGES[0] else f"stage {_next_stage(rank.stage)}",
                phase=f"probe round {round_.name[1:]}, {ranks} ranks, tests",
                unit="tests",
                whole=self._whole(done, total),
            )
        )


def _next_stage(stage: str) -> str:
    return STAGES[min(STAGES.index(stage) + 1, len(STAGES) - 1)]
