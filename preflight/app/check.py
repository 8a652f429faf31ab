"""A check: facts, pings and tests of all hosts, judged."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path

from preflight.app.background import in_background, reached
from preflight.app.early_findings import EarlyFindings
from preflight.app.end import EndedRun, end
from preflight.app.hosts_alone import AREAS_OF_INVENTORY, NO_PROBE, NOT_CHECKED, with_product, without_changes
from preflight.app.pings import send_pings
from preflight.app.probing.device_tests import Afterwards, ProbeSetting, TimeBudget, add_results, run_tests
from preflight.app.probing.probed_devices import ProbedDevices
from preflight.app.remember import baseline_of
from preflight.app.run import ClusterRun, setting_of
from preflight.app.run_options import BUDGET, LEAST_BUDGET, CheckOptions
from preflight.app.saved.saved_facts import Saved
from preflight.app.session import NO_SUDO_HOST, Session, session, wants_password
from preflight.app.site_engine import ENGINES, engine_of, stop_if_ended
from preflight.checks.engine.blocked import BlockedPlaces, blocked
from preflight.checks.engine.registry import KNOWN, ROUNDS, all_checks
from preflight.checks.engine.run import NotRun, run_checks, select
from preflight.checks.engine.waivers import apply_waivers
from preflight.facts.collect import FactsRequest, collect
from preflight.facts.pings.plan import PingScope, plan_pings, planned_devices, refuse_too_many
from preflight.facts.pings.run import expected_seconds, forecast
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.inventory import fold, load
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import NotSeenError, PreflightError, UsageError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.ping import Ping
from preflight.probe.hccl_test import only_mindspore
from preflight.probe.permission import may_probe
from preflight.probe.request import Request
from preflight.report.build import joined
from preflight.report.next_step import START

MANY_PARTNERS = 2  # known-good hosts that a new host is tested with
_NAMED = 4  # devices in a note
_OF_PROBE = ("rehearsal", "observations", "link_counts")  # rounds that need the probe
_NO_PROBE = "--no-probe"
_NOT_WANTED = "no selected check needs it"


class NoPartnerError(PreflightError):
    """No host that was checked can serve as a partner."""

    exit_code = 3


class _Check:
    """A run of the selected checks. Each of its rounds adds what they need."""

    def __init__(self, options: CheckOptions, run: ClusterRun, begin: float) -> None:
        self.options = options
        self.run = run
        self.begin = begin
        self.checks = select(all_checks(), _ids(options.only), [*_ids(options.skip), *_areas_left_out(options)])
        self.ignored = _ids(options.ignore)
        self.blocked = BlockedPlaces({}, {})  # what the probe leaves out, by the findings so far
        if self.ignored:
            select(all_checks(), self.ignored, ())  # refuses unknown ids before any host is contacted

    def judge(self) -> None:
        findings = self.run.judge(self.checks, self.ignored)
        self.run.findings = without_changes(findings) if self.options.hosts is not None else findings
        self.run.announce()
        self.blocked = blocked(self.run.findings, all_checks())

    def judge_alone(self, name: str, facts: HostFacts) -> list[Finding]:
        """Return the findings about one host that need its facts only."""
        cluster = self.run.cluster
        checks = [check for check in self.checks if check.scope == "host" and not {*ROUNDS, KNOWN} & {*check.needs}]
        findings = run_checks(cluster, ClusterFacts({name: facts}), checks=checks, hosts=[cluster.by_name[name]])
        return apply_waivers(findings, cluster.waivers, self.ignored, date.today())

    @cached_property
    def _busy(self) -> Mapping[str, str]:
        return dict(may_probe(self.run.cluster, self.run.facts, self.run.hosts, asked_idle=self.options.idle))

    @property
    def busy(self) -> dict[str, str]:
        """Healthy hosts that the probe must not use, with the reason."""
        return {host: why for host, why in self._busy.items() if host not in self.blocked.hosts}

    def hosts_left(self) -> tuple[Host, ...]:
        return tuple(
            host for host in self.run.hosts if host.name not in self.blocked.hosts and host.name not in self._busy
        )

    def _devices_left(self) -> int:
        hosts = self.hosts_left()
        names = {host.name for host in hosts}
        return sum(max(1, len(host.devices)) for host in hosts) - sum(host in names for host, _ in self.blocked.devices)

    def wants(self, round_: str) -> bool:
        return any(round_ in check.needs for check in self.checks)

    def why_no_ping(self) -> str:
        if self.options.no_ping:
            return "--no-ping"
        return "" if self.wants("pings") else _NOT_WANTED

    def why_no_link_counts(self) -> str:
        if self.options.basic:
            return "--basic"
        return "" if self.wants("link_counts") else _NOT_WANTED

    @property
    def budget(self) -> float:
        return _budget(self.options)

    def time_left(self) -> float:
        """Return the seconds that are left of the budget."""
        return max(0.0, self.begin + self.budget - time.monotonic())

    def why_no_probe(self) -> str:
        """Return why there is no probe, whatever pings may show, or ""."""
        if self.options.no_probe:
            return _NO_PROBE
        if self.options.hosts is not None:
            return NO_PROBE
        if not self.wants("observations"):
            return _NOT_WANTED
        if only_mindspore(self.run.facts):
            return "jobs have MindSpore but no torch. To test with the vendor's HCCL Test, run: preflight probe"
        self.judge()
        too_late = self.time_left() < LEAST_BUDGET and f"the time budget of {self.budget:.0f} s left no time for it"
        return self.why_too_few() or too_late or ""

    def why_too_few(self) -> str:
        """Return why the findings so far leave too few devices to be tested, or ""."""
        if self.blocked.cluster or (self.blocked.checks and self._devices_left() < 2 and not self.busy):
            return f"{', '.join(self.blocked.checks[:4])} failed. Fix that first, or run: preflight probe"
        return _folded(self.busy.items()) if self.busy and self._devices_left() < 2 else ""

    def end(self, *, saved: bool = False) -> EndedRun:
        self.judge()
        self.run.to_prove = None if self.run.observations else self._to_prove(saved=saved)
        return end(self.run)

    def _to_prove(self, *, saved: bool) -> str:
        """Return the command that remains to be run before a job may start: the probe, or a check without options that
        leave checks out.
        """
        options = self.options
        partial = saved or options.only or options.skip or options.no_ping or options.basic
        idle = self.run.cluster.probe.idle or options.idle
        publish = " --publish" if options.publish else ""
        return ("check" if partial else "probe") + ("" if idle else " --idle") + publish


def _budget(options: CheckOptions) -> float:
    """Return the seconds after which a check ends."""
    return options.budget or BUDGET


def _ids(values: Sequence[str]) -> list[str]:
    return [word.strip() for value in values for word in value.split(",")]


def _areas_left_out(options: CheckOptions) -> Sequence[str]:
    """Return the areas that are not checked without an inventory. Raise UsageError if only these are selected."""
    if options.hosts is None:
        return ()
    wanted = select(all_checks(), _ids(options.only))
    if all(check.area in AREAS_OF_INVENTORY for check in wanted):
        raise UsageError(f"checks of {' and '.join(AREAS_OF_INVENTORY)} need an inventory: preflight init writes one")
    return AREAS_OF_INVENTORY


def _folded(refused: Iterable[tuple[str, str]]) -> str:
    """Fold (host, reason) pairs into one clause for each reason: "node[01-16]: …"."""
    reasons: dict[str, list[str]] = {}
    for host, why in refused:
        reasons.setdefault(why, []).append(host)
    return "; ".join(f"{fold(hosts)}: {why}" for why, hosts in reasons.items())


def check_saved(options: CheckOptions, saved: Saved, source: Path, started: datetime) -> EndedRun:
    """Judge saved facts. No host is contacted."""
    run = ClusterRun("check", options, saved.cluster, saved.hosts, started=started, facts=saved.facts)
    check = _Check(options, run, time.monotonic())
    run.rounds = dict.fromkeys(ROUNDS, NotRun("the facts are from a file"))
    run.untested = {host.name: f"not in {source}" for host in saved.hosts if host.name not in saved.facts.hosts}
    run.notes.append(saved.note)
    return check.end(saved=True)


def check_hosts(options: CheckOptions, cluster: Cluster | None = None) -> EndedRun:
    """Check the hosts of an inventory, unless `cluster` is given, with all rounds that disturb no job."""
    started, begin = datetime.now(UTC), time.monotonic()
    _refuse_wrong_options(options)
    with session(options, cluster, parks=not options.publish, start_within=_budget(options) / 2) as s:
        run = ClusterRun("check", options, s.cluster, s.hosts, s, started)
        check = _Check(options, run, begin)
        s = run.session = s._replace(until=check.begin + check.budget)
        s.progress.say(f"checking {len(s.hosts)} hosts, {check.budget:.0f} s at most")
        if options.hosts is not None:
            s, shown = with_product(s)
            run.session, run.cluster, run.hosts = s, s.cluster, s.hosts
            run.notes += [NOT_CHECKED, shown]
        if options.buddies:
            partners = _partners(options, s)
            run.hosts += partners
            run.notes.append("partners: " + ", ".join(host.name for host in partners))
            s = s._replace(hosts=run.hosts)
        wanted = PingScope(options.mesh, options.cross_rail, options.ping_size or 0)
        if not check.why_no_ping():
            refuse_too_many(planned_devices(run.hosts), wanted)  # before any host is contacted
        run.facts = _facts(check, s)
        run.rounds = dict.fromkeys(("pings", *_OF_PROBE), NotRun("not yet"))
        if why_not := check.why_no_probe():
            run.rounds["pings"] = _pings(check, s, wanted)
            check.judge()
        else:
            why_not = _probe(check, s, wanted)
        if why_not:
            _note_no_probe(run, why_not)
        return check.end()


def _refuse_wrong_options(options: CheckOptions) -> None:
    """Raise UsageError, before any host is contacted."""
    if options.buddies and options.via in ENGINES:
        raise UsageError(f"--buddies needs ssh: over {options.via}, no host outside --limit is reached")
    select(all_checks(), _ids(options.only), [*_ids(options.skip), *_ids(options.ignore)])


def _note_no_probe(run: ClusterRun, why_not: str) -> None:
    if why_not not in (_NO_PROBE, _NOT_WANTED):  # the user knows
        run.notes.append(f"no probe: {why_not}")
    not_run = [name for name in _OF_PROBE if isinstance(run.rounds[name], NotRun)]
    run.rounds |= {**dict.fromkeys(not_run, NotRun(why_not)), "baseline": baseline_of(setting_of(run.cluster))}


def _facts(check: _Check, s: Session) -> ClusterFacts:
    """Collect the facts. On a terminal, show the first failures meanwhile.

    Raise NotSeenError if the site's engine has ended: no host is at fault.
    """
    request = FactsRequest(s.cluster, s.hosts, deep=not check.options.basic)
    early = EarlyFindings(check.judge_alone, s.progress.note)
    on_facts = early.take if s.progress.on_terminal else None
    facts = collect(request, s.transport, progress=s.progress, limits=s.limits, on_facts=on_facts)
    if engine := engine_of(s.cluster.probe.via, s.transport):
        stop_if_ended(engine)
    return facts


def _pings(check: _Check, s: Session, wanted: PingScope) -> object:
    """Return the results of the pings between devices, or why there are none."""
    if why_not := check.why_no_ping():
        return NotRun(why_not)
    facts = check.run.facts
    plan = plan_pings(s.cluster, facts, wanted)
    check.run.notes += plan.notes
    if plan.pings:
        s.progress.note(forecast(plan.pings, s.pool))
        if expected_seconds(plan.pings, s.pool) > check.time_left():
            s.progress.note("the time budget ends before the last pings. Allow more time with --budget.")
    return send_pings(s, facts, plan.pings)


def _probe(check: _Check, s: Session, wanted: PingScope) -> str:
    """Test all devices that are not known to be faulty, as the inventory says.

    The hosts import torch while their devices ping each other. Return why nothing was tested, or "".
    """
    run, options, hosts = check.run, check.options, check.hosts_left()
    pings = in_background(lambda: _pings(check, s, wanted))
    s = s._replace(hosts=hosts)
    budget = TimeBudget(check.time_left())

    def still_healthy(present: Sequence[Host]) -> Sequence[Host]:
        run.rounds["pings"] = pings.result()
        check.judge()
        healthy = set() if check.why_too_few() else {host.name for host in check.hosts_left()}
        return [host for host in present if host.name in healthy]

    setting = ProbeSetting(
        usable=lambda: reached(hosts, run.facts),
        before=lambda: run.facts,
        note=run.notes.append,
        idle=still_healthy,
        without=lambda: check.blocked.devices,
        budget=budget,
    )
    request = Request(s.cluster.probe.backend, s.cluster.probe.sizes, budget=budget.seconds)
    tests = _tested(s, request, setting)
    if isinstance(tests, str):
        return tests
    tests = replace(tests, pings=_pings_sent(run))
    if why_not := check.why_too_few():
        run.untested = dict(tests.result.busy)
        run.rounds["rehearsal"] = tests.rehearsal if len(hosts) > 1 else NotRun(why_not)
        return why_not
    s = s._replace(hosts=check.hosts_left())
    tests = replace(tests, hosts=s.hosts)
    failed = {host: f"{', '.join(ids)} failed" for host, ids in check.blocked.hosts.items()}
    run.untested = {**failed, **check.busy, **tests.result.busy, **tests.result.alone}
    run.notes += _devices_left_out(check.blocked)
    no_counts = check.why_no_link_counts()
    add_results(run, s, tests, Afterwards(budget, no_counts=no_counts, ignored=check.ignored, deep=not options.basic))
    return ""


def _tested(s: Session, request: Request, setting: ProbeSetting) -> ProbedDevices | str:
    """Return the tests, or why there are none: the site's engine may end. The facts stay valid then."""
    try:
        return run_tests(s, request, setting)
    except NotSeenError as error:
        return str(error)


def _pings_sent(run: ClusterRun) -> tuple[Ping, ...] | None:
    """Return the results of the pings, or None if none were sent."""
    pings = run.rounds["pings"]
    return pings if isinstance(pings, tuple) else None


def _devices_left_out(blocked: BlockedPlaces) -> Iterator[str]:
    if blocked.devices:
        devices = [f"{host}/{index} ({', '.join(ids)})" for (host, index), ids in sorted(blocked.devices.items())]
        further = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
        yield f"left out of the probe: {', '.join(devices[:_NAMED])}{further}"


def _partners(options: CheckOptions, s: Session) -> tuple[Host, ...]:
    """Return known-good, idle partners for the limited hosts.

    They are checked as thoroughly, and any problem rules them out.
    """
    candidates = tuple(host for host in s.cluster.hosts if host not in s.hosts)[: 2 * MANY_PARTNERS]
    s.progress.say(f"looking for partners among {len(candidates)} hosts")
    facts = s.collect(candidates, deep=not options.basic)
    later = NotRun("partners are not tested before they are chosen")
    rounds = {"pings": later, "observations": later}
    findings = run_checks(s.cluster, facts, checks=all_checks().values(), hosts=candidates, rounds=rounds)
    bad = {finding.host for finding in findings if finding.outcome in (Outcome.FAIL, Outcome.UNKNOWN)}
    bad |= {host for host, _ in may_probe(s.cluster, facts, candidates, asked_idle=options.idle)}
    if None in bad:  # a problem between them that no host can be blamed for
        candidates = ()
    partners = tuple(host for host in candidates if host.name not in bad)[:MANY_PARTNERS]
    if not partners:
        raise NoPartnerError("--buddies auto: no host outside --limit is healthy and idle. Add a host to --limit.")
    return partners


def check_kinds(options: CheckOptions, also: Sequence[Path]) -> EndedRun:
    """Check hosts of several kinds, each kind in its own inventory and by its own rules, in one report."""
    started, clusters = datetime.now(UTC), _load_kinds(options, also)
    until = time.monotonic() + _budget(options)
    ended: list[EndedRun] = []
    for inventory, cluster in clusters.items():
        asks = options.ask_sudo_password and wants_password(cluster, cluster.hosts)
        time_left = max(LEAST_BUDGET, until - time.monotonic())  # one budget for all kinds
        of_kind = replace(options, inventory=inventory, ask_sudo_password=asks, budget=time_left)
        try:
            ended.append(check_hosts(of_kind, cluster))
        except PreflightError as error:
            if not ended:
                raise
            untested = {host.name: str(error) for host in cluster.hosts}
            ended.append(
                end(ClusterRun("check", of_kind, cluster, (), untested=untested))
            )  # the other findings stay valid
    return together(started, ended)


def _load_kinds(options: CheckOptions, also: Sequence[Path]) -> Mapping[Path, Cluster]:
    """Load the clusters of all inventories. Raise UsageError if their hosts cannot be told apart."""
    if options.limit:
        raise UsageError("--limit and --also cannot be combined, because --limit selects hosts of one inventory")
    clusters = {options.inventory: load(options.inventory)} | {path: load(path, "--also") for path in also}
    if len(clusters) <= len(also):
        raise UsageError("--also names an inventory twice")
    inventory_of: dict[str, Path] = {}
    for inventory, cluster in clusters.items():
        for host in cluster.hosts:
            if inventory_of.setdefault(host.name, inventory) != inventory:
                raise UsageError(
                    f"{host.name} is in {inventory_of[host.name]} and in {inventory}. Remove it from one of them."
                )
    if options.ask_sudo_password and not any(wants_password(cluster, cluster.hosts) for cluster in clusters.values()):
        raise UsageError(NO_SUDO_HOST)
    return clusters


def together(started: datetime, ended: Sequence[EndedRun]) -> EndedRun:
    """Join reports, each judged, published and recorded by itself. The next command is that of the worst."""

    def urgency(ending: EndedRun) -> tuple[int, int, bool]:
        report = ending.report
        return (1, 3, 0).index(ending.exit_code), list(Outcome).index(report.verdict), ending.next_step == START

    worst = min(ended, key=urgency)
    observations = tuple(observation for ending in ended for observation in ending.observations)
    report = joined(started, [ending.report for ending in ended])
    return EndedRun(report, worst.exit_code, worst.next_step, observations)
