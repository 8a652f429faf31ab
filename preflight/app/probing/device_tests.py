"""Tests over all devices, with what their checks need: rehearsed ports, counters of links, and causes of failures."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from preflight.app.background import FOR_EVER, left, rehearse_ports, result_by, unreached
from preflight.app.probing.causes import causes
from preflight.app.probing.engine import stop_without_engine
from preflight.app.probing.link_counts import after_tests
from preflight.app.probing.probed_devices import ProbedDevices
from preflight.app.remember import baseline_of
from preflight.app.run import ClusterRun, setting_of
from preflight.app.session import Session
from preflight.checks.engine.run import NotRun
from preflight.facts.link_counts import LinkCounts, sentence
from preflight.facts.pings.device_ports import leaves
from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Host
from preflight.model.measure import End, Observation, TestOutcome
from preflight.model.rehearsal import Rehearsal
from preflight.probe.hooks import Hooks
from preflight.probe.line_rate import ports, with_line_rates
from preflight.probe.request import Request
from preflight.probe.run import probe


@dataclass(frozen=True)
class TimeBudget:
    """Time of a run, which began at `begin` of the monotonic clock. Without `seconds` it never ends."""

    seconds: float | None = None
    begin: float = field(default_factory=time.monotonic)

    def share(self, part: float) -> float:
        """Return the time at which that part of the budget is spent."""
        return self.begin + part * (self.seconds or FOR_EVER)


@dataclass(frozen=True)
class ProbeSetting:
    """What tests of devices depend on, beside their request.

    `usable` returns the hosts that rehearse ports, and `idle` those of the present hosts whose devices may be used.
    After that `without` returns the devices (host, index) that are left out, because they are known to be faulty.
    `before` returns facts from before the tests, with counters of links. `note` takes sentences for the report.
    """

    usable: Callable[[], Sequence[Host]]
    before: Callable[[], ClusterFacts]
    note: Callable[[str], None]
    idle: Callable[[Sequence[Host]], Sequence[Host]] = lambda present: present
    without: Callable[[], Collection[tuple[str, int]]] = tuple
    budget: TimeBudget = field(default_factory=TimeBudget)


def run_tests(s: Session, request: Request, setting: ProbeSetting) -> ProbedDevices:
    """Run the requested tests, while ports are rehearsed. No later than the budget's end."""
    budget = setting.budget
    rehearsal = rehearse_ports(s, request.backend, setting.usable, budget.share(1 / 3))
    hooks = Hooks(
        s.progress,
        s.progress.note,
        setting.note,
        setting.idle,
        setting.without,
        ports_free=lambda: rehearsal.exception(left(budget.share(1 / 3))),
        unreached=lambda: unreached(rehearsal),
        leaves=lambda: leaves(setting.before()),
    )
    result = probe(s.cluster, s.hosts, s.transport, request, hooks)
    stop_without_engine(s)
    late = Rehearsal(request.backend, (), (), "the port rehearsal did not end within the time budget")
    return ProbedDevices(
        s.hosts, request.backend, setting.before(), result, result_by(rehearsal, budget.share(1), late)
    )


@dataclass(frozen=True)
class Afterwards:
    """What is collected after tests. `no_counts`: why counters of links are not read. `ignored` are ids of checks."""

    budget: TimeBudget = field(default_factory=TimeBudget)
    no_counts: str = ""
    ignored: Iterable[str] = ()
    deep: bool = True


def add_results(run: ClusterRun, s: Session, tests: ProbedDevices, afterwards: Afterwards) -> None:
    """Give the run the results of its tests, and what its checks need to explain them."""
    budget, result = afterwards.budget, tests.result
    until = budget.share(1)
    counts = NotRun(afterwards.no_counts) if afterwards.no_counts else after_tests(s, tests, until)
    run.observations = with_line_rates(result.observations, ports(tests.before))
    counted = sentence(counts) if isinstance(counts, LinkCounts) else ""
    run.notes += filter(None, (tests.rehearsal.note, _budget_note(run.observations, budget.seconds), counted))
    run.runner = tests.backend
    run.rounds |= {
        "rehearsal": tests.rehearsal if len(s.hosts) > 1 else NotRun("only one host was tested"),
        "observations": run.observations,
        "baseline": baseline_of(setting_of(s.cluster, tests.backend)),
        "located": result.located,
        "link_counts": counts,
        "limit": result.limit,
        "causes": causes(s, tests, until=until, ignored=afterwards.ignored, deep=afterwards.deep),
    }


def _budget_note(observations: Sequence[Observation], budget: float | None) -> str:
    """Return a note if the budget ended before all tests were run.

    Late hosts are reported by the roll-call, which is the first observation.
    """
    cut = [observation for observation in observations if any(view.end is End.CUT for view in observation.ranks)]
    if not budget or not cut:
        return ""
    if len(observations) == 1:
        return f"the budget of {budget:.0f} s ran out before any host was ready"
    not_run = sum(
        observation.test.outcome is TestOutcome.NOT_RUN for observation in cut if observation.test.id != "r0-0"
    )
    return f"the budget of {budget:.0f} s ran out: {not_run} tests did not run" if not_run else ""
