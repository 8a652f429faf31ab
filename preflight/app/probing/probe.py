"""A probe: tests over all devices, judged."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from preflight.app.background import FactsOfHosts, in_background, reached, result_by
from preflight.app.end import EndedRun, end
from preflight.app.options import refuse_partial
from preflight.app.probing.device_tests import Afterwards, ProbeSetting, TimeBudget, add_results, run_tests
from preflight.app.probing.engine import session_by_engine, start_engine
from preflight.app.probing.hccl_test import run_hccl_test
from preflight.app.probing.link_counts import before_tests
from preflight.app.run import ClusterRun
from preflight.app.run_options import BUDGET, ProbeOptions
from preflight.app.session import Session, session
from preflight.checks.engine.registry import all_checks
from preflight.facts.types import ClusterFacts
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.errors import UsageError
from preflight.probe.hccl_test import nobody_has_torch
from preflight.probe.permission import may_probe
from preflight.probe.request import USUAL, Request
from preflight.probe.rounds import ProbePlan
from preflight.probe.timeouts.estimate import without_groups

_JUDGING = {"rehearsal", "observations", "hccl_test", "link_counts"}  # a check of the probe needs one of these


@contextmanager
def probe_session(options: ProbeOptions, cluster: Cluster) -> Iterator[Session]:
    """Open a session with the hosts of a probe, which nobody else may use. Raise UsageError if they may not be used."""
    with session(replace(options, via=None), cluster) as by_ssh, session_by_engine(options, by_ssh) as s:
        settings = s.cluster.probe
        if options.publish:
            backend = options.backend not in (None, settings.backend)
            partial = {"--scope": options.scope, "--backend": backend, "--via pods": options.via == "pods"}
            refuse_partial(partial, "a complete probe")
        if not (options.idle or settings.idle):
            raise UsageError(
                "the probe keeps every device busy. If no other job uses these hosts, add --idle, or set idle = true "
                "under [probe] in the inventory."
            )
        yield s


def probe(options: ProbeOptions, s: Session, started: datetime) -> EndedRun:
    """Run a probe over the session's hosts, and end it."""
    run = run_probe(options, s, started)
    judge_probe(run)
    return end_probe(run)


def judge_probe(run: ClusterRun) -> None:
    """Give the run the findings of the checks that need its tests."""
    needed = _JUDGING & set(run.rounds)
    run.findings = run.judge([check for check in all_checks().values() if needed & set(check.needs)])
    run.announce()


def end_probe(run: ClusterRun) -> EndedRun:
    """Build the report of a judged probe; publish and save it."""

    return end(run)


def run_probe(options: ProbeOptions, s: Session, started: datetime) -> ClusterRun:
    """Run the requested tests over the session's hosts.

    Raise UsageError for an invalid request, and NotSeenError if the engine ends.
    """
    run = ClusterRun("probe", options, s.cluster, s.hosts, s, started)
    s = _meeting_as_requested(s, options.init)
    _refuse_other_backend(options.backend, s.cluster.product)
    if options.tool == "hccl-test":
        _refuse_hccl_test(options, s.cluster.product)
        run_hccl_test(run, options, s)
    else:
        _run_torch(run, options, s)
    return run


def _refuse_hccl_test(options: ProbeOptions, product: Product) -> None:
    """Raise UsageError for options that HCCL Test does not have."""
    if options.budget:
        raise UsageError("HCCL Test has no time limit. Remove --budget or --with.")
    if not product.is_npu or options.backend not in (None, "hccl"):
        raise UsageError("HCCL Test needs NPUs and the backend hccl. Remove --with or --backend.")


def _meeting_as_requested(s: Session, init: str | None) -> Session:
    """Return the session with the requested meeting of ranks. Raise UsageError if a file needs an unknown directory."""
    if init == "file" and not s.cluster.probe.shared_dir:
        raise UsageError("--init file needs a directory that all hosts share: set shared_dir under [probe]")
    return s._replace(cluster=replace(s.cluster, probe=replace(s.cluster.probe, init=init))) if init else s


def _refuse_other_backend(backend: str | None, product: Product) -> None:
    """Raise UsageError for a backend that needs devices of another product. gloo runs everywhere."""
    supported = {"hccl": product.is_npu, "nccl": product is Product.NVIDIA}
    if backend and not supported.get(backend, True):
        backends = [name for name, has_devices in supported.items() if has_devices]
        raise UsageError(f"--backend {backend} does not run on {product}. Use {' or '.join([*backends, 'gloo'])}.")


def _run_torch(run: ClusterRun, options: ProbeOptions, s: Session) -> None:
    """Run the tests with torch, or with HCCL Test if no host's jobs have torch."""
    request = _request(options, s)
    run.notes += _without_groups(options, s, request)
    budget = TimeBudget(request.budget)
    start_engine(s, request.budget)
    users = DeviceUsers(s, FactsOfHosts(s, (_section_of_users(s.cluster.product),)), options.idle, budget)
    counters = in_background(lambda: before_tests(s, request.backend))
    setting = ProbeSetting(
        usable=users.usable,
        before=lambda: result_by(counters, budget.share(1), ClusterFacts({})),
        note=run.notes.append,
        idle=users.idle,
        budget=budget,
    )
    tests = run_tests(s, request, setting)
    run.refused = {**users.refused, **tests.result.busy}
    if options.tool is None and request.backend == "hccl" and nobody_has_torch(tests.result.observations):
        if not options.budget and s.cluster.probe.via == "ssh":
            run_hccl_test(run, options, s, tests.rehearsal)
            return
        run.notes.append("no host has torch for its jobs. To use HCCL Test instead, remove --budget and --via.")
    tests = replace(tests, hosts=[host for host in s.hosts if host.name not in run.refused])
    add_results(run, s, tests, Afterwards(budget))
    if tests.result.located and request.seed is None:
        run.notes.append(f"to test the same pairs again, add --seed {tests.result.seed} to preflight probe")
    run.facts = users.facts.of(s.hosts, budget.share(1))
    run.untested = dict(tests.result.alone)


def _request(options: ProbeOptions, s: Session) -> Request:
    """Return the request. The inventory has the defaults."""
    settings = s.cluster.probe
    return Request(
        options.backend or settings.backend,
        options.sizes or settings.sizes,
        options.scope or USUAL,
        quick=options.quick,
        budget=options.budget or BUDGET,
        seed=options.seed,
    )


def _section_of_users(product: Product) -> str:
    """Return the section of the facts that has the processes on devices."""
    return "npu_smi" if product.is_npu else "nvidia" if product is Product.NVIDIA else "os"


@dataclass
class DeviceUsers:
    """Hosts whose devices are in use, found out while the hosts import torch. `refused`: host → reason."""

    session: Session
    facts: FactsOfHosts
    are_idle: bool  # as the user says
    budget: TimeBudget
    refused: dict[str, str] = field(default_factory=dict)

    def idle(self, present: Sequence[Host]) -> list[Host]:
        """Return the hosts whose devices may be used, and refuse the others."""
        facts = self.facts.of(present, self.budget.share(1 / 2))
        late = [host.name for host in present if host.name not in facts.hosts]
        self.refused.update(dict.fromkeys(late, "it did not report in time whether its devices are in use"))
        self.refused.update(may_probe(self.session.cluster, facts, present, asked_idle=self.are_idle))
        return [host for host in present if host.name not in self.refused]

    def usable(self) -> list[Host]:
        """Return the hosts that were reached in time and are not busy."""
        hosts = self.session.hosts
        facts = self.facts.of(hosts, self.budget.share(1 / 4))
        busy = dict(may_probe(self.session.cluster, facts, hosts, asked_idle=self.are_idle))
        return [host for host in reached(hosts, facts) if host.name not in busy]


def _without_groups(options: ProbeOptions, s: Session, request: Request) -> Iterator[str]:
    """Yield a note on requested scopes that have no test. Raise UsageError if no test remains."""
    empty = without_groups(ProbePlan(s.cluster, s.hosts, request))
    if len(empty) == len(request.scopes):
        raise UsageError(
            f"--scope {','.join(empty)} needs more hosts, or more devices on each host. Use scope device or all."
        )
    if options.scope and empty:
        yield f"no tests of scope {','.join(empty)}: too few hosts or devices"
