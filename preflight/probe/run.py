"""The probe: agents on all hosts, rounds of tests, observations. The one place here that does things in time."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from preflight.model.cluster import Cluster, Host
from preflight.model.measure import Observation, TestOutcome
from preflight.probe.agents import Agents, Gone
from preflight.probe.messages import Failed, Ready, Settled
from preflight.probe.observe import absent, observe
from preflight.probe.patience import late, step_deadline
from preflight.probe.rounds import Group, Plan, Round, acquitted, slow_below, split, with_slow
from preflight.probe.watch import Watch
from preflight.transport.types import Progress, Transport

START = 60.0  # seconds for connecting and for importing torch
SETTLE = 45.0  # seconds for a host to say that its devices are free; it gives up waiting for them after 30
_TICK = 0.2  # seconds between two looks at the clock

OnProgress = Callable[[Progress], None]


def probe(
    cluster: Cluster,
    hosts: Sequence[Host],
    transport: Transport,
    *,
    backend: str | None = None,
    sizes: Sequence[int] = (),
    progress: OnProgress | None = None,
    begin: Callable[[Sequence[Host]], Sequence[Host]] | None = None,
) -> tuple[Observation, ...]:
    """Run collectives over all devices of `hosts` and return what was observed, test by test, in the order of rounds.

    `backend` and `sizes` (bytes) default to the inventory's. `begin` is asked once the agents are ready, and before any
    device is touched, which hosts to take: what it takes time for passes while the hosts import torch.
    Never raises for a host: one that gives no agent is in the first observation, and the others go on without it.
    """
    chosen = backend or cluster.probe.backend
    with Agents(cluster, hosts, transport, chosen) as agents:
        run = _Run(cluster, agents, chosen, tuple(sizes) or cluster.probe.sizes, progress or (lambda _: None))
        return tuple(run.everything(hosts, begin or (lambda present: present)))


class _Run:
    def __init__(
        self, cluster: Cluster, agents: Agents, backend: str, sizes: tuple[int, ...], progress: OnProgress
    ) -> None:
        self._cluster = cluster
        self._agents = agents
        self._backend = backend
        self._sizes = sizes
        self._progress = progress
        self._deadline = 0.0
        self._ready: dict[str, Ready] = {}
        self._gone: dict[str, tuple[str, str]] = {}  # host → (stage reached, why)
        self._killed: dict[str, set[int]] = defaultdict(set)  # host → devices whose workers did not leave by themselves

    def everything(self, hosts: Sequence[Host], begin: Callable[[Sequence[Host]], Sequence[Host]]) -> list[Observation]:
        self._roll_call(hosts)
        variables = [ready.variables for ready in self._ready.values()]
        self._deadline = step_deadline(self._cluster.probe, self._backend, self._cluster.product, variables)
        observations = []
        if self._gone:
            everybody = self._plan(hosts).world().groups[0].members
            observations.append(absent(everybody, self._gone))
        taken = begin(self._present(hosts))
        if taken:
            observations += self._world_and_rails(taken)
            self._settle()  # whoever takes the devices next, a job or another probe, finds them free
        return observations

    def _present(self, hosts: Sequence[Host]) -> list[Host]:
        """Those that have an agent, and have not lost it since."""
        return [host for host in hosts if host.name in self._ready and host.name not in self._gone]

    def _plan(self, hosts: Sequence[Host]) -> Plan:
        plan = Plan(self._cluster, tuple(hosts), self._backend, self._sizes, crowded=False)
        cores = {host.name: self._ready[host.name].cores for host in hosts if host.name in self._ready}
        crowded = any(cores.get(host.name, 1) < len(plan.devices(host)) for host in hosts)
        return Plan(self._cluster, tuple(hosts), self._backend, self._sizes, crowded)

    def _world_and_rails(self, hosts: Sequence[Host]) -> list[Observation]:
        plan = self._plan(hosts)
        world = self._round(plan.world())
        healthy = all(observation.test.outcome is TestOutcome.PASS for observation in world)
        left = self._present(hosts)
        if not left or (len(left) == 1 and healthy):
            return world
        plan = self._plan(left)
        rails: list[Observation] = []
        number = 2
        for pairs in plan.rails():
            rails += self._round(plan.pair_round(number, pairs))
            number += 1
        below = slow_below(rails)
        rails = with_slow(rails, below)
        good, bad = split(rails)
        if not (good and bad):
            return world + rails
        swapped = with_slow(self._round(plan.pair_round(number, plan.swapped(bad, good))), below)
        again = acquitted(bad, swapped)
        repeated = with_slow(self._round(plan.pair_round(number + 1, again)), below)
        return world + rails + swapped + repeated

    # agents

    def _roll_call(self, hosts: Sequence[Host]) -> None:
        """Wait until every host has an agent, or has said why not, or has taken too long."""
        begin = time.monotonic()
        waiting = [host.name for host in hosts]
        while waiting and (passed := time.monotonic() - begin) < START:
            self._progress(
                Progress(
                    done=len(self._ready),
                    total=len(hosts),
                    failed=len(self._gone),
                    slowest=waiting[0],
                    seconds=passed,
                    waiting_for="torch",
                    phase="agents",
                )
            )
            for said in self._agents.said(_TICK):
                match said.message:
                    case Ready():
                        self._ready[said.host] = said.message
                    case Failed(stage=stage, error=error):
                        self._gone[said.host] = (stage, error)
                    case Gone(why=why):  # after its failure, or after it was ready: while others were waited for
                        stage = "torch" if said.host in self._ready else "none"
                        self._gone.setdefault(said.host, (stage, why))
                    case _:
                        continue
                if said.host in waiting:
                    waiting.remove(said.host)
        for host in waiting:
            why = f"no agent after {START:.0f} s: connecting, the setup line, or importing torch takes too long"
            self._gone[host] = ("none", why)

    def _round(self, round_: Round) -> list[Observation]:
        """Start the round's groups, watch them to their end, and return what was seen."""
        if not round_.groups:
            return []
        self._settle()
        watch = Watch(round_, self._deadline, time.monotonic())
        for host, (_, why) in self._gone.items():
            watch.lose(host, why, time.monotonic())
        self._start(round_, watch.takes_turns)
        while not watch.over:
            said = self._agents.said(_TICK)
            now = time.monotonic()
            for word in said:
                match word.message:
                    case Gone(why=why):
                        self._gone.setdefault(word.host, ("none", why))
                        watch.lose(word.host, why, now)
                    case Ready() | Failed() | Settled():
                        pass
                    case message:
                        watch.take(word.host, message, now)
            for order in watch.orders(now):
                self._tell(order.group, {"do": order.do, "group": order.group.name})
            self._report(round_, watch, now)
        for host, why in watch.lost():
            self._gone.setdefault(host, ("none", why))
        if self._backend == "hccl":
            for host, device in watch.not_left():
                self._killed[host].add(device)
        return observe(round_.name, watch.groups, late(self._backend, self._deadline))

    def _settle(self) -> None:
        """Wait until the devices whose workers were killed are free: the driver's part of a killed job lives on for
        about 10 s, and whoever takes the device meanwhile is told that another job runs (EJ0001)."""
        waiting = {host: devices for host, devices in self._killed.items() if host not in self._gone}
        self._killed.clear()
        self._agents.send({host: [{"do": "settle", "devices": sorted(devices)}] for host, devices in waiting.items()})
        begin, total = time.monotonic(), len(waiting)
        while waiting and (passed := time.monotonic() - begin) < SETTLE:
            self._progress(
                Progress(
                    done=total - len(waiting),
                    total=total,
                    failed=0,
                    slowest=next(iter(waiting)),
                    seconds=passed,
                    waiting_for="killed workers to leave their devices",
                    phase="probe: devices, hosts",
                )
            )
            for said in self._agents.said(_TICK):
                if isinstance(said.message, Gone):
                    self._gone.setdefault(said.host, ("none", said.message.why))
                if isinstance(said.message, Gone | Settled):
                    waiting.pop(said.host, None)

    def _start(self, round_: Round, takes_turns: bool) -> None:
        """Tell each host, in one go, which ranks of which groups are its own."""
        commands: dict[str, list[dict[str, object]]] = defaultdict(list)
        for group in round_.groups:
            meeting = self._ready[group.members[0].host]
            for host in dict.fromkeys(member.host for member in group.members):
                mine = [{"rank": m.rank, "device": m.device} for m in group.members if m.host == host]
                commands[host].append(
                    {
                        "do": "start",
                        "group": group.name,
                        "size": len(group.members),
                        "store": [meeting.address, meeting.store],
                        "deadline": self._deadline,
                        "wait": takes_turns,
                        "workers": mine,
                        "tests": [vars(test) for test in group.tests],
                    }
                )
        self._agents.send(commands)

    def _tell(self, group: Group, command: dict[str, object]) -> None:
        self._agents.send({member.host: [command] for member in group.members})

    def _report(self, round_: Round, watch: Watch, now: float) -> None:
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
                waiting_for=f"the step after {rank.stage}",
                phase=f"probe round {round_.name[1:]}, {ranks} ranks, tests",
            )
        )
