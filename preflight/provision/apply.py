"""Execution of a plan, wave by wave; host_run.py has each host's part of it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from preflight.facts.answer_frame import NoAnswer
from preflight.model.change import Change, Plan, StepResult, StepState
from preflight.model.cluster import Host
from preflight.provision.host_run import CONFIRM_SECONDS, HostOutcome, HostRefusalError, HostRun, Person, lost
from preflight.provision.journal import RunJournal
from preflight.provision.rollout import Rollout, failed_hosts
from preflight.transport import FanOutLimits, fan_out
from preflight.transport.types import Progress, Transport, TransportError

T = TypeVar("T")


@dataclass(frozen=True)
class Applied:
    """Results of all changes of a plan, in its order.

    `at_work`: the hosts on which another run was at work, and its owner.
    """

    results: tuple[StepResult, ...]
    at_work: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Way:
    """Hosts, the transport to them and the settings that `apply` needs besides the plan.

    `confirm_seconds`: how long a host waits for a new connection before it reverts its firewall changes. `undoes`: the
    run that is rolled back, if any.
    """

    hosts: Sequence[Host]
    transport: Transport
    pool: int = 4096
    progress: Callable[[Progress], None] | None = None
    confirm_seconds: float = CONFIRM_SECONDS
    undoes: str = ""
    person: Person | None = None  # confirms the firewall changes of this machine; None: they are not made

    def on_each(
        self, names: Collection[str], run: str, step: Callable[[HostRun], T], *, seconds: float, phase: str
    ) -> dict[str, T | TransportError]:
        """Call `step` with each host's part of `run`, in parallel. A host has `seconds`."""

        def one_host(host: Host) -> T:
            return step(HostRun(host, self.transport, run, confirm_seconds=self.confirm_seconds, person=self.person))

        hosts = [host for host in self.hosts if host.name in names]
        return fan_out(hosts, one_host, FanOutLimits(self.pool, seconds), progress=self.progress, phase=phase)


def apply(plan: Plan, way: Way, journal: RunJournal, rollout: Rollout) -> Applied:
    """Carry out `plan`: the waves of `rollout` one after the other, the hosts of a wave in parallel.

    A host's changes stop at the first that does not succeed; other hosts go on. `journal` records when a host is begun
    and when it has ended. Its id names the run on the hosts. A host that cannot be reached ends in `FAILED` with the
    transport's message, never in an exception.
    """
    outcomes: dict[str, HostOutcome] = {}
    stop = ""
    for number, wave in enumerate(rollout.waves(plan.hosts)):
        if stop:
            outcomes |= {name: HostOutcome(_not_begun(plan.of_host(name), stop)) for name in wave}
            continue
        outcomes |= _wave(plan, wave, way, journal)
        failed = failed_hosts(_results(outcomes.values()))
        stop = rollout.stop(failed, canaries=number == 0 and rollout.canaries(plan.hosts) > 0)
        if stop:
            journal.stopped(stop)
    at_work = {name: outcome.at_work for name, outcome in outcomes.items() if outcome.at_work}
    return Applied(_results(outcomes[name] for name in plan.hosts), at_work)


def _results(outcomes: Iterable[HostOutcome]) -> tuple[StepResult, ...]:
    return tuple(result for outcome in outcomes for result in outcome.results)


def _wave(plan: Plan, names: Sequence[str], way: Way, journal: RunJournal) -> dict[str, HostOutcome]:
    def carry_out(host_run: HostRun) -> HostOutcome:
        changes = plan.of_host(host_run.host_name)
        journal.begin(host_run.host_name, changes)
        outcome = host_run.carry_out(changes, undoes=way.undoes)
        journal.end(outcome.results)
        return outcome

    longest = max(HostRun.seconds(plan.of_host(name), way.confirm_seconds) for name in names)
    outcomes = way.on_each(names, journal.run, carry_out, seconds=longest, phase="apply")
    return dict(_ended(outcomes, plan, journal))


def _ended(
    outcomes: Mapping[str, HostOutcome | TransportError], plan: Plan, journal: RunJournal
) -> Iterator[tuple[str, HostOutcome]]:
    """Yield each host's outcome; the changes of a host that was given up count as failed, with an unknown effect."""
    for name, outcome in outcomes.items():
        if isinstance(outcome, TransportError):
            given_up = HostOutcome(lost(plan.of_host(name), outcome.summary, journal.run))
            journal.end(given_up.results)
            yield name, given_up
        else:
            yield name, outcome


def _not_begun(changes: Sequence[Change], why: str) -> tuple[StepResult, ...]:
    return tuple(StepResult(change, StepState.NOT_RUN, message=f"not started: {why}") for change in changes)


@dataclass(frozen=True)
class Recovery:
    """Result of finishing runs that were cut off.

    `notes`: a sentence for each host on which a run was cut off, or that could not be put in order. `at_work`: the
    hosts on which another run was still at work after the timeout, and its owner.
    """

    notes: tuple[str, ...] = ()
    at_work: Mapping[str, str] = field(default_factory=dict)


def put_in_order(names: Collection[str], way: Way, run: str) -> Recovery:
    """Wait for the run that is at work on each of these hosts, or finish the work of a run that was cut off there."""
    at_work: dict[str, str] = {}

    def recover(host_run: HostRun) -> str:
        try:
            return host_run.recover()
        except HostRefusalError as error:
            if not error.at_work:
                return str(error)
            at_work[host_run.host_name] = error.at_work
            return ""
        except NoAnswer as error:
            return str(error)

    seconds = HostRun.seconds((), way.confirm_seconds)
    sentences = way.on_each(names, run, recover, seconds=seconds, phase="recover")
    notes = (f"{name}: {sentence}" for name, sentence in sentences.items() if sentence and isinstance(sentence, str))
    return Recovery(tuple(notes), at_work)


def who_is_at_work(names: Collection[str], way: Way, run: str) -> dict[str, str]:
    """Return the hosts among these on which a run is at work now, and its owner; nothing is written.

    A host that does not answer is left out.
    """

    def owner(host_run: HostRun) -> str:
        try:
            return host_run.at_work()
        except (HostRefusalError, NoAnswer):
            return ""

    owners = way.on_each(names, run, owner, seconds=HostRun.seconds((), 0), phase="ask")
    return {name: owner for name, owner in owners.items() if isinstance(owner, str) and owner}


def compare(plan: Plan, way: Way, run: str) -> tuple[StepResult, ...]:
    """Return the result that each change of `plan` would have on its host now; nothing is written."""

    def compare_host(host_run: HostRun) -> tuple[StepResult, ...]:
        return host_run.compare(plan.of_host(host_run.host_name))

    longest = max(HostRun.seconds(plan.of_host(name), 0) for name in plan.hosts)
    results = way.on_each(plan.hosts, run, compare_host, seconds=longest, phase="compare")
    return tuple(result for name in plan.hosts for result in _unless_given_up(results[name], plan.of_host(name)))


def _unless_given_up(
    results: tuple[StepResult, ...] | TransportError, changes: Sequence[Change]
) -> tuple[StepResult, ...]:
    if isinstance(results, TransportError):
        return tuple(StepResult(change, StepState.FAILED, message=results.summary) for change in changes)
    return results
