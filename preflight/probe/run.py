"""The probe: agents on all hosts, round after round, observations."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from preflight.model.cluster import Cluster, Host
from preflight.model.measure import Observation, Scope, TestOutcome
from preflight.probe.agents import FAREWELL, Agents, Launcher
from preflight.probe.conductor import Conductor, OnProgress
from preflight.probe.estimate import sentence
from preflight.probe.observe import absent, with_printed
from preflight.probe.pairs import acquitted, slow_below, split, with_slow
from preflight.probe.patience import step_deadline
from preflight.probe.request import SCOPES, Request
from preflight.probe.rounds import Pair, Plan, Round
from preflight.probe.venue import Venue

_BAD = (TestOutcome.FAIL, TestOutcome.HANG, TestOutcome.WRONG_DATA)


def probe(
    cluster: Cluster,
    hosts: Sequence[Host],
    launcher: Launcher,
    request: Request | None = None,
    *,
    progress: OnProgress | None = None,
    announce: Callable[[str], None] | None = None,
    note: Callable[[str], None] | None = None,
    begin: Callable[[Sequence[Host]], Sequence[Host]] | None = None,
    ports_free: Callable[[], object] | None = None,
    cut_off: Callable[[], bool] | None = None,
) -> tuple[Observation, ...]:
    """Run what was asked for over all devices of `hosts` and return what was observed, test by test, in the order of
    rounds. Without a request it is the inventory's backend and sizes.

    `announce` is told, before it starts, what is coming and how long it takes; `note`, what hosts have to say. `begin`
    is asked once the agents are ready, and before any device is touched, which hosts to take: what it takes time for
    passes while the hosts import torch; so it is with `ports_free`, which returns when the job's ports may be bound.
    Where hosts are `cut_off` from each other, asked then, too, groups of several are not run: they would only wait.
    Never raises for a host: one that gives no agent is in the first observation, the others go on without it.
    """
    request = request or Request(cluster.probe.backend, cluster.probe.sizes)
    until = time.monotonic() + (request.budget - FAREWELL if request.budget else float("inf"))
    with Agents(cluster, hosts, launcher, request.backend, ports_free, trains=request.trains) as agents:
        conductor = Conductor(agents, request.backend, progress or (lambda _: None), Venue.of(cluster))
        conductor.roll_call(hosts, until, note)
        variables = [ready.variables for ready in conductor.ready.values()]
        conductor.deadline = step_deadline(cluster.probe, request.backend, cluster.product, variables)
        called = _roll_called(Plan(cluster, tuple(hosts), request), conductor)
        taken = (begin or (lambda present: present))(conductor.present(hosts))
        if not taken:
            return called
        run = _Run(cluster, tuple(taken), request, conductor, until)
        run.apart = len(taken) > 1 and cut_off is not None and cut_off()
        if run.apart and note:
            note("no host reaches another on the ports that ranks need (PRB114): tests between hosts were not run")
        if announce:
            announce(sentence(run.plan, conductor.deadline))
        return (*called, *run.everything())


def _roll_called(plan: Plan, conductor: Conductor) -> tuple[Observation, ...]:
    """What there is to say of hosts that gave no agent."""
    if not (conductor.gone or conductor.unheard):
        return ()
    called = absent(plan.everybody(0).groups[0].members, conductor.gone, conductor.unheard)
    return tuple(with_printed([called], conductor.printed))


class _Run:
    """The rounds of one run, one after the other. `plan` loses hosts and devices on the way."""

    def __init__(
        self, cluster: Cluster, hosts: tuple[Host, ...], request: Request, conductor: Conductor, until: float
    ) -> None:
        self._conductor = conductor
        self._until = until
        self.apart = False  # hosts do not reach each other
        self._rounds = 0
        self._seen: list[Observation] = []
        cores = {host.name: conductor.ready[host.name].cores for host in hosts}
        self.plan = Plan(cluster, hosts, request)
        crowded = any(cores[host.name] < len(self.plan.devices_of(host)) for host in hosts)
        self.plan = replace(self.plan, crowded=crowded)

    def everything(self) -> list[Observation]:
        for scope in SCOPES:
            if scope in self.plan.request.scopes:
                self._over(scope)
        return self._seen

    def _over(self, scope: Scope) -> None:
        match scope:
            case Scope.DEVICE:
                alone = self._play(self.plan.devices)
                bad = {member for seen in alone if seen.test.outcome in _BAD for member in seen.test.members}
                self.plan = self.plan.without((member.host, member.device) for member in bad)
            case Scope.HOST:
                self._play(self.plan.within_hosts)
            case Scope.ALL:
                self._play(self.plan.everybody)
            case Scope.RAIL:
                self._play(self.plan.rails)
            case Scope.PAIR:
                self._over_pairs()

    def _over_pairs(self) -> None:
        """Neighbours; then, where some pairs were bad and some good, the ends of bad ones with others, and those whose
        ends were both good elsewhere once more with each other. Unless nothing else was asked for, a single host's
        pairs only tell more of a failure."""
        self._forget_the_gone()
        well = all(seen.test.outcome in (TestOutcome.PASS, TestOutcome.REFUSED) for seen in self._seen)
        if len(self.plan.hosts) == 1 and self._seen and well:
            return
        matchings = self.plan.neighbours()
        tried: list[Observation] = []
        for pairs in matchings[:1] if self.plan.request.quick else matchings:
            tried += self._play_pairs(pairs)
        below = slow_below(tried)
        tried = with_slow(tried, below)
        good, bad = split(tried)
        self._seen += tried
        if good and bad:
            self._forget_the_gone()
            swapping = self.plan.swapped(self._there(bad), self._there(good))
            swapped = with_slow(self._play_pairs(swapping), below)
            self._seen += swapped
            self._seen += with_slow(self._play_pairs(acquitted(bad, swapped)), below)

    def _play_pairs(self, pairs: Sequence[Pair]) -> list[Observation]:
        self._forget_the_gone()
        self._rounds += 1
        return self._perform(self.plan.pair_round(self._rounds, self._there(pairs)))

    def _there(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Those whose ends are still in the plan."""
        there = {(host.name, device.index) for host in self.plan.hosts for device in self.plan.devices_of(host)}
        return [pair for pair in pairs if all((member.host, member.device) in there for member in pair)]

    def _perform(self, round_: Round) -> list[Observation]:
        """Play it; devices that killed workers have kept are left out from here on."""
        hopeless = self.apart and any(len({m.host for m in group.members}) > 1 for group in round_.groups)
        seen = self._conductor.play(round_, 0.0 if hopeless else self._until) if round_.groups else []
        kept = {view.member for part in seen for view in part.ranks if view.held}
        self.plan = self.plan.without((member.host, member.device) for member in kept)
        return seen

    def _forget_the_gone(self) -> None:
        self.plan = replace(self.plan, hosts=tuple(self._conductor.present(self.plan.hosts)))

    def _play(self, make: Callable[[int], Round]) -> list[Observation]:
        """Make a round of the hosts that are still there, and play it."""
        self._forget_the_gone()
        self._rounds += 1
        seen = self._perform(make(self._rounds))
        self._seen += seen
        return seen
