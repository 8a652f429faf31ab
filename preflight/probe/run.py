"""The probe: agents on all hosts, rounds of tests, observations."""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from preflight.model.cluster import Cluster, Host
from preflight.model.figures import LEAST
from preflight.model.measure import (
    Located,
    Observation,
    Scope,
    TestOutcome,
    TestResult,
    TimeLimit,
    kept_waiting,
)
from preflight.probe.agents import Agents, ProbeWorkload
from preflight.probe.conductor import Conductor
from preflight.probe.hooks import Hooks
from preflight.probe.lines import FAREWELL, Launcher
from preflight.probe.observe import absent, with_agent_output
from preflight.probe.pairs import JUDGED, with_slow
from preflight.probe.request import SCOPES, Request
from preflight.probe.rounds import Pair, Place, ProbePlan, Round, place_of
from preflight.probe.search import GroupSearch, Search
from preflight.probe.timeouts.budget import FREE, Ahead, enough, hanging_rounds, least
from preflight.probe.timeouts.deadlines import step_deadline
from preflight.probe.timeouts.estimate import longest_test, seconds_ahead, sentence, whole
from preflight.probe.venue import Venue
from preflight.rules.nics import nccl_networks

_BAD = (TestOutcome.FAIL, TestOutcome.HANG, TestOutcome.WRONG_DATA)
_WELL = (TestOutcome.PASS, TestOutcome.REFUSED)
# Rounds of pairs, and then of groups. Culprits are identified after four, parts of a cluster that do not reach
# each other after ten. A host that fails intermittently could take any number.
MOST_ROUNDS = 24
PIECE = 4 << 20  # bytes a rank from which a collective's time depends on bandwidth
_NAMED = 4  # devices in a note; more are counted
TOGETHER = 0.6  # of the slowest pair's bandwidth: the least for all together, if no baseline demands more


@dataclass(frozen=True)
class ProbeResult:
    """Result of a probe run.

    `observations` are in the order of rounds, `located` the culprits that they identify. `seed` decided which members
    met. `busy` are the hosts that had to be left out, `alone` those that were left out of all tests with others, each
    with the reason. `limit` is the effect of a budget.
    """

    observations: tuple[Observation, ...]
    located: tuple[Located, ...] = ()
    seed: int = 0
    busy: Mapping[str, str] = field(default_factory=dict)
    alone: Mapping[str, str] = field(default_factory=dict)
    limit: TimeLimit | None = None


def probe(
    cluster: Cluster,
    hosts: Sequence[Host],
    launcher: Launcher,
    request: Request | None = None,
    hooks: Hooks | None = None,
) -> ProbeResult:
    """Run the requested tests over all devices of `hosts`. Without a request, use the inventory's backend and sizes.

    Never raises for a host. A host that gives no agent is in the first observation, and the others go on without it.
    """
    request, hooks = request or Request(cluster.probe.backend, cluster.probe.sizes), hooks or Hooks()
    seed = secrets.randbelow(1_000_000) if request.seed is None else request.seed
    until = _end_of(request)
    with Agents(cluster, hosts, launcher, ProbeWorkload(request.backend, request.trains), hooks.ports_free) as agents:
        conductor = Conductor(agents, request.backend, hooks.progress, Venue.of(cluster))
        conductor.roll_call(hosts, until, hooks.note)
        variables = [ready.variables for ready in conductor.ready.values()]
        usual = step_deadline(cluster.probe, request.backend, cluster.product, variables)
        chosen = hooks.begin(conductor.present(hosts))
        roll_call = _roll_call(ProbePlan(cluster, tuple(hosts), request), chosen, conductor)
        if not chosen:
            return ProbeResult(roll_call, seed=seed, busy=conductor.busy)
        plan = ProbePlan(cluster, tuple(chosen), request, out=frozenset(hooks.without()))
        run = Run(plan, conductor, hooks, Deadlines(until, usual), seed)
        run.unreached = frozenset(hooks.unreached()) & {host.name for host in chosen}
        _note_omissions(run, hooks)
        conductor.whole = whole(run.plan)
        hooks.announce(sentence(run.plan))
        run.play_scopes()
        if networks_note := nccl_networks.sentence(run.observations):
            hooks.note(networks_note)
        observations = (*roll_call, *run.observations)
        return ProbeResult(observations, tuple(run.located), seed, conductor.busy, _without_partners(run), run.limit)


def _end_of(request: Request) -> float:
    """Return the moment of the monotonic clock at which a run that begins now has to stop."""
    return time.monotonic() + (request.budget - FAREWELL if request.budget else float("inf"))


def _note_omissions(run: "Run", hooks: Hooks) -> None:
    if run.apart:
        hooks.note(
            "tests between hosts were not run, because hosts cannot connect on the ports that ranks need (PRB114)"
        )
    if run.plan.parted and Scope.ALL in run.plan.request.scopes:
        hooks.note(
            "send_recv was not run over all ranks, because the rails of a direct fabric are not connected. Test each "
            "rail with preflight probe --scope rail"
        )


def _without_partners(run: "Run") -> dict[str, str]:
    """Return the hosts without any test with others, and why."""
    why = (
        "this host and other hosts cannot connect on the ports that ranks need (PRB114), so only the host's own "
        "devices were tested"
    )
    return dict.fromkeys(sorted(run.unreached - {host.name for host in run.plan.hosts}), why)


def _roll_call(plan: ProbePlan, chosen: Sequence[Host], conductor: Conductor) -> tuple[Observation, ...]:
    """Return the roll-call of the chosen hosts and of those that gave no agent, if there are such hosts."""
    if not (conductor.gone or conductor.unheard):
        return ()
    names = {*(host.name for host in chosen), *conductor.gone, *conductor.unheard}
    plan = replace(plan, hosts=tuple(host for host in plan.hosts if host.name in names))
    roll_call = absent(plan.all_devices(0).groups[0].members, conductor.gone, conductor.unheard)
    return tuple(with_agent_output([roll_call], conductor.printed))


@dataclass(frozen=True)
class Deadlines:
    """Time limits of a run.

    `until`: the moment, of the monotonic clock, at which the run has to stop. `step`: seconds that one step of a rank
    may take if the run's time is not limited.
    """

    until: float
    step: float


class Run:
    """The rounds of one run, one after the other. `plan` loses hosts and devices on the way."""

    def __init__(self, plan: ProbePlan, conductor: Conductor, hooks: Hooks, deadlines: Deadlines, seed: int) -> None:
        self._conductor = conductor
        self._hooks = hooks
        self._until, self._usual = deadlines.until, deadlines.step
        self._later: tuple[Scope, ...] = ()  # the scopes after the current one
        self.limit: TimeLimit | None = None
        self._seed = seed
        self._rounds = 0
        self._searches = False  # whether pairs beyond the planned ones are tested
        self.unreached: frozenset[str] = frozenset()
        self.observations: list[Observation] = []
        self.located: list[Located] = []
        cores = {host.name: conductor.ready[host.name].cores for host in plan.hosts}
        self.plan = replace(plan, crowded=any(cores[host.name] < len(plan.devices_of(host)) for host in plan.hosts))

    @property
    def apart(self) -> bool:
        """True if no host reaches another."""
        return bool(self.unreached) and self.unreached >= {host.name for host in self.plan.hosts}

    def play_scopes(self) -> None:
        """Play the rounds of all scopes, the cheapest first. Then test devices that are not at fault together."""
        scopes = [scope for scope in SCOPES if scope in self.plan.request.scopes]
        for number, scope in enumerate(scopes, 1):
            self._later = tuple(scopes[number:])
            self._play_scope(scope)
        self._retest_remaining()

    def _play_scope(self, scope: Scope) -> None:
        reached_hosts = [host for host in self.plan.hosts if host.name not in self.unreached]
        if scope not in (Scope.DEVICE, Scope.HOST) and len(reached_hosts) > 1:
            self.plan = replace(self.plan, hosts=tuple(reached_hosts))
        match scope:
            case Scope.DEVICE:
                self._play_devices()
            case Scope.HOST:
                self._play(self.plan.within_hosts)
            case Scope.PAIR:
                self._search_pairs()
                self._leave_out_culprits()
            case Scope.RAIL:
                self._play(self.plan.rails)
            case Scope.ALL:
                self._play(self.plan.all_devices)

    def _play_devices(self) -> None:
        """Test each device alone. Those that fail are left out of all later groups."""
        observations = self._play(self.plan.devices)
        bad_tests = [observation.test for observation in observations if observation.test.outcome in _BAD]
        self.plan = self.plan.without(place_of(member) for test in bad_tests for member in test.members)
        self._play(self.plan.processors)

    def _search_pairs(self) -> None:
        """Play the rounds of pairs that the localiser chooses."""
        self._drop_lost_hosts()
        if len(self.plan.places()) < 2:
            return
        search = Search(self.plan, self._hooks.leaves(), self._seed)
        for _ in range(MOST_ROUNDS):
            pairs = search.next_pairs()
            if not pairs:
                break
            search.take(self._play_pairs(pairs, each_way=search.asks_direction))
            if time.monotonic() > self._until:
                break
        self.observations += search.observations
        self.located += search.located()

    def _leave_out_culprits(self) -> None:
        """Leave out what failed or is slow in pairs. In larger groups, all other ranks would wait for it."""
        if any(culprit.kind == "system" for culprit in self.located):
            self.plan = self.plan.without(self.plan.places())
            return
        culprits = self._places_of(self.located)
        self.plan = self.plan.without(culprits)
        if culprits and {Scope.RAIL, Scope.ALL} & set(self._later):
            names = [f"{host}/{device}" for host, device in sorted(culprits)]
            places = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} devices"
            self._hooks.note(f"left out of larger groups: {places}, because pair tests failed or were slow")

    def _play_pairs(self, pairs: Sequence[Pair], *, each_way: bool) -> list[Observation]:
        self._drop_lost_hosts()
        present = set(self.plan.places())
        pairs_left = [pair for pair in pairs if all(place_of(member) in present for member in pair)]
        self._rounds += 1
        round_ = self.plan.pair_round(self._rounds, pairs_left, each_way=each_way)
        if self._searches:
            self._conductor.add_to_plan(round_)
        self._searches = True
        return self._perform(round_)

    def _retest_remaining(self) -> None:
        """Test the remaining devices together once more, if all together failed, without those that are identified.

        If they fail, too, or no device is identified, the failure needs a minimum number of ranks. Then the smallest
        groups that fail are searched for.
        """
        if self.apart or not {Scope.ALL, Scope.PAIR} <= set(self.plan.request.scopes):
            return
        self._drop_lost_hosts()
        below = self._slow_together()
        self._mark_slow_together(below)
        failed_test = self._failed_together()
        if failed_test is None:
            return
        self.plan = self.plan.without(_suspects(filter(_of_all, self.observations)))
        if len(self._hosts()) < 2 or time.monotonic() > self._until:
            return
        tested = set(map(place_of, failed_test.members))
        if set(self.plan.places()) < tested and _all_pass(self._together([self._hosts()], failed_test, below)):
            return
        if len(self._hosts()) > 2:
            self._search_smallest_failing(failed_test, below)

    def _mark_slow_together(self, below: float) -> None:
        large = [observation for observation in self.observations if _of_all(observation) and _is_large(observation)]
        by_id = {observation.test.id: observation for observation in with_slow(large, below)}
        self.observations = [by_id.get(observation.test.id, observation) for observation in self.observations]

    def _failed_together(self) -> TestResult | None:
        """Return the first test of all together that failed, or None if none did, or time was up before it."""
        together = (observation.test for observation in self.observations if _of_all(observation))
        failed_test = next((test for test in together if test.outcome not in _WELL), None)
        return None if failed_test is None or failed_test.outcome is TestOutcome.NOT_RUN else failed_test

    def _hosts(self) -> list[str]:
        return [host.name for host in self.plan.hosts if self.plan.devices_of(host)]

    def _together(self, groups: Sequence[Collection[str]], like: TestResult, below: float) -> list[Observation]:
        """Repeat the failed operation in groups of hosts. Mark those that are slow."""
        observations = self._play(partial(self.plan.together, groups=groups, like=like))
        judged = with_slow(observations, below)
        self.observations[len(self.observations) - len(observations) :] = judged
        return judged

    def _places_of(self, culprits: Iterable[Located]) -> set[Place]:
        """Return the remaining devices of culprits. Of a link they are both ends, of a partition its smaller part."""
        names = {name for culprit in culprits for name in culprit.members}
        return {(host, index) for host, index in self.plan.places() if {host, f"{host}/{index}"} & names}

    def _slow_together(self) -> float:
        """Return the bandwidth in GB/s below which all together are slow.

        It is far less than that of the slowest healthy pair. It is 0 if the bandwidth cannot be judged: ranks share
        cores, or with this number of ranks latency alone counts.
        """
        pairs = [
            observation.test.busbw_GBps
            for observation in self.observations
            if observation.test.scope is Scope.PAIR and _measures_well(observation)
        ]
        latency = max(self.plan.request.sizes) < PIECE * len(self.plan.places())
        return 0.0 if self._shares_cores or latency else TOGETHER * min(filter(None, pairs), default=0.0)

    @property
    def _shares_cores(self) -> bool:
        """True if ranks share cores, or their tensors were in the host's memory."""
        alone = (observation for observation in self.observations if observation.test.scope is Scope.DEVICE)
        return self.plan.crowded or any(view.on_host for observation in alone for view in observation.ranks)

    def _search_smallest_failing(self, failed: TestResult, below: float) -> None:
        """Search for the smallest failing groups, after a test of each host by itself.

        A fault inside one host is not between hosts.
        """
        observations = self._together([[host] for host in self._hosts()], failed, below)
        failed_tests = {
            observation.test.members[0].host: observation.test
            for observation in observations
            if observation.test.outcome in _BAD
        }
        self.located += [Located("host", (host,), (test.id,), test.outcome) for host, test in failed_tests.items()]
        healthy = [host for host in self._hosts() if host not in failed_tests]
        if failed_tests and _all_pass(self._together([healthy], failed, below)):
            return
        self._search_groups(healthy, failed, below)

    def _search_groups(self, hosts: Collection[str], failed: TestResult, below: float) -> None:
        places = [place for place in self.plan.places() if place[0] in hosts]
        search = GroupSearch(places, filter(_of_all, self.observations), self._seed)
        for _ in range(search.limit):
            groups = search.next_groups()
            if not groups or time.monotonic() > self._until:
                break
            search.take(self._together(groups, failed, below))
        self.located += search.located()

    def _perform(self, round_: Round) -> list[Observation]:
        """Play a round. Devices that killed workers still hold are left out from here on."""
        if not round_.groups:
            return []
        hopeless = self.apart and any(len(group.hosts) > 1 for group in round_.groups)
        self._conductor.deadline = self.step(round_)
        observations = self._conductor.play(round_, 0.0 if hopeless else self._until)
        views = (view for observation in observations for view in observation.ranks)
        self.plan = self.plan.without(place_of(view.member) for view in views if view.held)
        return observations

    def step(self, round_: Round) -> float:
        """Return the seconds that one step of a rank may take in a round. Note the budget's effect on them.

        Once a culprit is known, a hang of those that remain is not waited for so long.
        """
        if not round_.groups:
            return self._usual
        backend, largest = self.plan.request.backend, max(round_.groups, key=lambda group: len(group.members))
        shortest = least(backend, largest.scope, len(largest.members), longest_test(self.plan, round_))
        usual = min(self._usual, shortest) if self.located else self._usual
        budget = self.plan.request.budget
        if budget is None:
            return usual
        seconds_left = self._until - time.monotonic()
        healthy = seconds_ahead(self.plan, round_, self._later)
        ahead = Ahead(seconds_left, healthy, hanging_rounds(largest.scope, self._later), FREE[backend], shortest)
        step = ahead.step(usual)
        previous = self.limit or TimeLimit(budget, 0.0, shortened=False)
        needed = max(previous.enough, enough(budget - seconds_left, ahead, usual))
        self.limit = TimeLimit(budget, needed, previous.shortened or step < usual)
        return step

    def _drop_lost_hosts(self) -> None:
        self.plan = replace(self.plan, hosts=tuple(self._conductor.present(self.plan.hosts)))

    def _play(self, make: Callable[[int], Round]) -> list[Observation]:
        """Make a round of the hosts that are still present, and play it."""
        self._drop_lost_hosts()
        self._rounds += 1
        observations = self._perform(make(self._rounds))
        self.observations += observations
        return observations


def _all_pass(observations: Iterable[Observation]) -> bool:
    return all(observation.test.outcome in _WELL for observation in observations)


def _of_all(observation: Observation) -> bool:
    return observation.test.scope is Scope.ALL


def _is_large(observation: Observation) -> bool:
    return observation.test.bytes >= PIECE * len(observation.test.members)


def _measures_well(observation: Observation) -> bool:
    test = observation.test
    return test.op == JUDGED and test.outcome is TestOutcome.PASS and test.bytes >= LEAST


def _suspects(observations: Iterable[Observation]) -> set[Place]:
    """Return the devices that one test alone identifies: those that kept others waiting, or sent wrong data."""
    places: set[Place] = set()
    for observation in observations:
        places |= {place_of(view.member) for view in kept_waiting(observation)}
        suspects = {view.suspect_rank for view in observation.ranks if view.suspect_rank is not None}
        places |= {place_of(member) for member in observation.test.members if member.rank in suspects}
    return places
