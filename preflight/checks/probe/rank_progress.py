"""Checks of rank progress: hung ranks, the stage they stopped at, and the ranks that waited for them."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from preflight.attribution import short_budget
from preflight.attribution.causes import ON_THE_WIRE
from preflight.attribution.culprit_words import Named, by_id, counted, hosts_of, link_ends, named, partners, test_words
from preflight.attribution.culprit_words import evidence as partner_evidence
from preflight.attribution.rank_positions import (
    activity,
    device_ranges,
    evidence,
    first_line,
    found_at,
    waiting,
)
from preflight.attribution.stopped_ranks import (
    TROUBLE,
    Behind,
    Stop,
    by_itself,
    late,
    nearest,
    of_its_tests,
    others_pass,
    passed_later,
)
from preflight.checks.engine.registry import All, Details, cluster_check
from preflight.checks.shared.culprit_findings import ProbeResults, Symptom, culprit_finding, unproven
from preflight.checks.shared.pip import pip_install
from preflight.facts.error_meanings import Meaning, meaning
from preflight.facts.hung_rank_causes import ONE_PROCESS, usual
from preflight.model.cluster import Cluster
from preflight.model.finding import Finding, with_outcome
from preflight.model.measure import (
    End,
    Located,
    Member,
    Observation,
    RankView,
    Scope,
    TestOutcome,
    TimeLimit,
    kept_waiting,
)
from preflight.model.outcome import Outcome

_PIP = "pip install "  # beginning of a remedy's command
_SHOWN = 8  # hangs that one finding lists as evidence
_MANY = 3  # pairs without a known culprit; more of them are one finding


@cluster_check("PRB101", "Rank progress", several=False, optional=("located", "causes", "limit"))
def rank_progress(
    scribe: All,
    observations: tuple[Observation, ...],
    located: tuple[Located, ...] | None,
    causes: tuple[Finding, ...] | None,
    limit: TimeLimit | None = None,
) -> Iterator[Finding]:
    """Why: A collective needs every rank. If one rank hangs, all others wait until a timeout, and the error message
    points to a rank that waited.

    Result: FAIL for hung ranks, with the last stage that each rank completed. The stages are spawned, python, torch,
    backend, device, store, peers, communicator, warm-up, iteration, values and closed. If all ranks stopped at the same
    stage, tests with other partners identify the culprit. The culprit can be a device or host that fails with two
    healthy partners, a link or a rail. It can also be groups of hosts that cannot reach each other. If tests fail only
    with many hosts, the finding has their number. Known facts about the culprit are reported as the cause, and failures
    that follow from it as evidence.

    Check manually: Read the job log of the hung rank, not of the rank that reported the timeout.

    Fix: If the rank stopped before the device stage, check the software on the host. Before the store stage, check the
    route, the firewall and the port of the first rank. Before the communicator stage, check the device's address, link
    and TLS switch. Before the iteration stage, check the fabric.
    """
    if not observations:
        yield scribe.unknown("the probe returned no results")
    yield from _cut_off(scribe, observations)
    yield from _not_run(scribe, observations, limit)
    results = ProbeResults(scribe, observations, causes)
    other_tests = {test for fault in located or () if fault.outcome not in TROUBLE for test in fault.tests}
    yield from _findings(results, _sorted_hangs(results, located, limit), limit, other_tests)


def _was_busy(view: RankView) -> bool:
    """Return whether the time ran out while the rank was busy with a known step. Only the roll call reports the
    step."""
    return view.end is End.CUT and bool(view.error)


def _cut_off(scribe: All, observations: Sequence[Observation]) -> Iterator[Finding]:
    busy = {view.member.host: view for observation in observations for view in filter(_was_busy, observation.ranks)}
    for host, view in busy.items():
        yield scribe.unknown(
            f"{host}: stopped {activity(view.stage)}, because the budget ran out: {view.error}",
            host=host,
            evidence=view.logs,
            remedy="run the probe with a larger budget, or without --budget. Without it, a host has a minute to start",
        )


def _not_run(scribe: All, observations: Sequence[Observation], limit: TimeLimit | None) -> Iterator[Finding]:
    """Yield that tests did not run, unless others failed: then they may be skipped because of those, which are findings
    themselves."""
    if any(observation.test.outcome in TROUBLE for observation in observations):
        return
    not_run = [observation for observation in observations if observation.test.outcome is TestOutcome.NOT_RUN]
    ids = [observation.test.id for observation in not_run if not any(map(_was_busy, observation.ranks))]
    if ids:
        spent = f" within the budget of {limit.budget:.0f} s. {short_budget.enough(limit)}" if limit else ""
        yield scribe.unknown(
            f"{counted(len(ids), 'test')} did not run{spent}",
            evidence=(test_words(ids),),
            **_more_time(limit),
        )


def _more_time(limit: TimeLimit | None) -> Details:
    """Return the remedy for a short budget; empty if the time was not limited."""
    if limit is None:
        return {}
    enough = f"{limit.enough:.0f}"
    return {
        "remedy": f"run the probe with a budget of {enough} s",
        "commands": (f"preflight probe --budget {enough}s",),
    }


@dataclass(frozen=True)
class _Suspect:
    """An object that may be at fault for hung ranks.

    `culprit`: the object, which stayed behind like `straggler`. `lines`: other tests in which it stayed behind, or in
    which partners identify it."""

    culprit: Named
    straggler: Behind
    lines: tuple[str, ...] = ()

    def explains(self, stop: Stop) -> bool:
        return self.culprit.explains(stop.places) if self.culprit.proven else self.straggler.explains(stop)


@dataclass(frozen=True)
class _Hangs:
    """The hangs of a probe, by their explanation.

    `stops`: all groups that stopped as one. `unexplained`: those of them that no suspect and no slow object explains.
    `slow_alone`, `slow_stops`: ranks and groups that may only be slow, since the budget was short."""

    culprits: Sequence[Named]
    suspects: Sequence[_Suspect]
    stops: Sequence[Stop]
    unexplained: Sequence[Stop]
    slow_alone: Sequence[Behind]
    slow_stops: Sequence[Stop]

    @property
    def suspect_places(self) -> set[str]:
        return {place for suspect in self.suspects for place in suspect.straggler.places}

    def needs_finding(self, culprit: Named, wire_hosts: AbstractSet[str]) -> bool:
        """Return whether the findings about suspects and about the budget leave out this culprit.

        `wire_hosts`: hosts at fault for an address that two devices answer for."""
        kind, members = culprit.kind, set(culprit.one.members)
        if kind in ("system", "scale") and self.slow_stops and not self.unexplained:
            return False  # its evidence is the hangs that may only be slow
        # Groups of hosts fail even without the device, because its port still answers.
        if kind in ("link", "scale") and wire_hosts & members:
            return False
        if kind == "system":
            return not self.suspects or bool(self.unexplained)
        return kind not in ("host", "device") or not culprit.part(self.suspect_places)


def _sorted_hangs(results: ProbeResults, located: Sequence[Located] | None, limit: TimeLimit | None) -> _Hangs:
    culprits, slow = named(located, *TROUBLE), named(located, TestOutcome.SLOW)
    stragglers, stops = late(results.observations, None if located is None else culprits)
    slow_alone = _slow_alone(results.observations, stragglers, limit)
    suspects = _suspects(results, [straggler for straggler in stragglers if straggler not in slow_alone], culprits)
    stops_left = [stop for stop in stops if not _follows(stop, suspects, slow)]
    slow_stops = [stop for stop in stops_left if _may_be_slow(stop, culprits, limit)]
    unexplained = [stop for stop in stops_left if stop not in slow_stops]
    return _Hangs(culprits, suspects, stops, unexplained, slow_alone, slow_stops)


def _shared_addresses(causes: Sequence[Finding], culprits: Sequence[Named]) -> set[str]:
    """Return the two devices of each address that both answer for, if tests identify one of them."""
    failures = [cause for cause in with_outcome(causes, Outcome.FAIL) if cause.check in ON_THE_WIRE]
    pairs = [{f"{failure.host}/{failure.device}", failure.peer or ""} for failure in failures]
    return set().union(*(pair for pair in pairs if any(culprit.part(pair) for culprit in culprits)))


def _follows_from_address(suspect: _Suspect, shared: AbstractSet[str]) -> bool:
    """Return whether a rank of a larger group failed to reach a device whose address another one answers for.

    The group fails even without that other one, because its port still answers.
    """
    test, view = suspect.straggler.seen[0].test, suspect.straggler.views[0]
    met = not suspect.culprit.proven and not by_itself(view) and len(test.members) > 2
    return met and not shared.isdisjoint(test.places)


def _slow_alone(
    observations: Sequence[Observation], stragglers: Sequence[Behind], limit: TimeLimit | None
) -> list[Behind]:
    return [straggler for straggler in stragglers if short_budget.is_slow_or_hung_alone(straggler, observations, limit)]


def _follows(stop: Stop, suspects: Sequence[_Suspect], slow: Sequence[Named]) -> bool:
    """Return whether a stop follows from a suspect, or from an object that was too slow for the deadline."""
    if any(suspect.explains(stop) for suspect in suspects):
        return True
    return stop.moving and any(culprit.explains(stop.places) for culprit in slow)


def _may_be_slow(stop: Stop, culprits: Sequence[Named], limit: TimeLimit | None) -> bool:
    """Return whether a stop may only be slow: the budget was short, and no comparison with passed tests shows a
    hang."""
    compared = (culprit for culprit in culprits if culprit.kind not in ("system", "scale"))
    return short_budget.is_slow_or_hung(stop, limit) and not any(culprit.explains(stop.places) for culprit in compared)


def _findings(
    results: ProbeResults, hangs: _Hangs, limit: TimeLimit | None, other_tests: AbstractSet[str]
) -> Iterator[Finding]:
    """Yield the findings about hosts and devices, then about links between them, then about stops without a known
    culprit.

    `other_tests`: ids of tests that another check attributes to an object, for wrong data or slowness."""
    findings = [_suspect_finding(results, suspect, hangs.stops) for suspect in hangs.suspects]
    yield from findings
    if limit:
        yield from _too_short(results.scribe, limit, hangs)
    wire_hosts = _wire_hosts(results.causes or (), findings)
    for culprit in hangs.culprits:
        if hangs.needs_finding(culprit, wire_hosts):
            yield _between(results, culprit, hangs.unexplained)
    yield from _without_culprit(
        results,
        [
            stop
            for stop in hangs.unexplained
            if not any(culprit.explains(stop.places) for culprit in hangs.culprits) and not other_tests & set(stop.ids)
        ],
    )


def _wire_hosts(causes: Sequence[Finding], findings: Sequence[Finding]) -> set[str]:
    """Return both hosts of each address that two devices answer for, if that is the cause of a finding."""
    checks = [check for check in ON_THE_WIRE if any(finding.cause.endswith(f"({check})") for finding in findings)]
    conflicts = [cause for cause in causes if cause.check in checks]
    return hosts_of(place for cause in conflicts for place in (cause.host, cause.peer) if place)


def _too_short(scribe: All, limit: TimeLimit, hangs: _Hangs) -> Iterator[Finding]:
    """Yield one finding for all stops that may be hangs, or only slow."""
    lines = [
        f"{_tests(straggler)}: {', '.join(sorted(straggler.places))} stopped after stage {straggler.stage}"
        for straggler in hangs.slow_alone
    ]
    lines += [stop.told for stop in hangs.slow_stops]
    if lines:
        yield scribe.unknown(
            short_budget.sentence(limit, lines[0]),
            evidence=tuple(lines[:_SHOWN]),
            **_more_time(limit),
        )


def _suspects(results: ProbeResults, stragglers: Sequence[Behind], culprits: Sequence[Named]) -> list[_Suspect]:
    """Return one suspect an object. The ranks that stayed behind and the object that partners identify may be the
    same."""
    suspects: list[_Suspect] = []
    singles = [culprit for culprit in culprits if culprit.single]
    for culprit in singles:
        if suspect := _by_partners(results, culprit, stragglers):
            suspects.append(suspect)
        stragglers = [straggler for straggler in stragglers if culprit.part(straggler.places) != straggler.places]
    suspects += [_by_stage(results, straggler, singles) for straggler in stragglers]
    shared = _shared_addresses(results.causes or (), culprits)
    return [suspect for suspect in suspects if not _follows_from_address(suspect, shared)]


def _by_partners(results: ProbeResults, culprit: Named, stragglers: Sequence[Behind]) -> _Suspect | None:
    """Return the culprit as suspect, or None if ranks outside of it stayed behind with its own."""
    overlapping = [straggler for straggler in stragglers if culprit.part(straggler.places)]
    own = [straggler for straggler in overlapping if culprit.part(straggler.places) == straggler.places]
    first = own[0] if own else of_its_tests(culprit, results.observations)
    return _Suspect(culprit, first, tuple(map(_tests, own[1:]))) if first and own == overlapping else None


def _by_stage(results: ProbeResults, straggler: Behind, culprits: Sequence[Named]) -> _Suspect:
    """Return the host if all its ranks of the test stayed behind, if it was lost, or if no stage began; else its
    devices."""
    first, views, host = straggler.seen[0], straggler.views, straggler.views[0].member.host
    whole = len(views) > 1 and len(views) == sum(view.member.host == host for view in first.ranks)
    kind = "host" if whole or straggler.stage == "none" or views[0].end is End.LOST else "device"
    members = (host,) if kind == "host" else tuple(sorted(straggler.places))
    lines = (
        line
        for culprit in culprits
        if culprit.part(straggler.places)
        for line in partner_evidence(culprit.one, results.tests)
    )
    return _Suspect(unproven(kind, members, straggler.seen, first.test.outcome), straggler, tuple(lines))


def _tests(straggler: Behind) -> str:
    return test_words([observation.test.id for observation in straggler.seen])


def _suspect_finding(results: ProbeResults, suspect: _Suspect, stops: Sequence[Stop]) -> Finding:
    culprit, straggler, cluster = suspect.culprit, suspect.straggler, results.scribe.cluster
    first, views, view = straggler.seen[0], straggler.views, straggler.views[0]
    errors = [*(view.error for view in views), *(line for view in views for line in view.logs)]
    error_meaning = _meaning(cluster, first, straggler.stage, errors, view.state)
    if error_meaning is usual("iteration", "gloo") and _host_nic_passes(results, culprit):
        error_meaning = ONE_PROCESS
    summary = ". ".join(filter(None, (_progress(suspect), _contrast(results, suspect))))
    follows = [stop.told for stop in stops if suspect.explains(stop) and stop.seen[0] not in straggler.seen]
    return culprit_finding(
        results,
        culprit,
        Symptom(
            _trouble(view),
            summary,
            cause=error_meaning.cause,
            remedy=error_meaning.remedy,
            commands=_commands(results.scribe, error_meaning, first, view.member),
            found=_no_connection(first, straggler.stage),
            details=(
                *evidence(cluster, first, views),
                _tests(straggler),
                *suspect.lines,
                *follows,
                *others_pass(culprit, results.observations),
            ),
            alone=_failed_alone(first, view),
        ),
    )


def _failed_alone(first: Observation, view: RankView) -> bool:
    """Return whether no other rank and no network had a part in the failure. A rank without partners needs neither."""
    return (by_itself(view) or len(first.ranks) == 1) and view.state != "D"


def _host_nic_passes(results: ProbeResults, culprit: Named) -> bool:
    """Return whether other devices on the hosts of these devices pass with other hosts."""
    own_hosts = hosts_of(culprit.one.members)
    passed = [test for test in results.tests.values() if test.outcome is TestOutcome.PASS]
    across = [test for test in passed if len({member.host for member in test.members}) > 1]
    return culprit.kind == "device" and any(
        own_hosts & {member.host for member in test.members} and not culprit.part(test.places) for test in across
    )


def _progress(suspect: _Suspect) -> str:
    """Return a sentence: which ranks stayed behind, at which stage, and how they ended."""
    straggler, views, member = suspect.straggler, suspect.straggler.views, suspect.straggler.views[0].member
    first, end = straggler.seen[0], _end(views[0])
    if straggler.stage == "none" or views[0].end is End.LOST:
        tested = {view.member.place for view in first.ranks if view.member.host == member.host}
        number = len(straggler.places | tested)
        ranks = {1: "the only rank", 2: "both ranks"}.get(number, f"all {number} ranks")
        return f"{member.host}: {ranks} {end}"
    if len(views) == 1 and suspect.culprit.kind == "device":
        # The rank within a pair is not that of a job.
        rank = "" if first.test.scope is Scope.PAIR else f" (rank {member.rank})"
        return f"{member.host}: device {member.device}{rank} {end}"
    return f"{member.host}: {counted(len(views), 'rank')} ({device_ranges(views)}) {end}"


def _contrast(results: ProbeResults, suspect: _Suspect) -> str:
    """Return the partners that pass with others, or the ranks that waited for the suspect."""
    partner_places = partners(suspect.culprit.one, results.tests) if suspect.culprit.proven else []
    if len(partner_places) > 1:
        return f"Its partners {' and '.join(partner_places[:3])} pass with other partners"
    first = suspect.straggler.seen[0]
    members = suspect.straggler.members.union(view.member for view in kept_waiting(first))
    return waiting(first, [view for view in first.ranks if view.member not in members])


def _symptom(
    results: ProbeResults, failures: Sequence[Observation], stage: str, member: Member | None = None
) -> Symptom:
    """Return the symptom of groups that stopped together, without summary and details.

    `member`: the one that the commands are for, by default the first with an error."""
    views = [view for observation in failures for view in observation.ranks]
    failed = [view for view in views if view.error]
    error_meaning = _meaning(results.scribe.cluster, failures[0], stage, (view.error for view in failed))
    return Symptom(
        _trouble(views[0]),
        cause=error_meaning.cause,
        remedy=error_meaning.remedy,
        commands=_commands(results.scribe, error_meaning, failures[0], member or (failed or views)[0].member),
    )


def _between(results: ProbeResults, culprit: Named, stops: Sequence[Stop]) -> Finding:
    """Return the finding about a link, a rail, groups … or about an object that fails intermittently."""
    failures = [
        observation
        for observation in results.observations
        if observation.test.id in culprit.one.tests and observation.test.outcome in TROUBLE
    ]
    if not failures:
        return culprit_finding(results, culprit, Symptom("tests fail"))
    first, ids = failures[0], by_id(failures).keys()
    other_stops = [stop.told for stop in stops if culprit.explains(stop.places) and not ids >= set(stop.ids)]
    details = (*evidence(results.scribe.cluster, first, first.ranks), *other_stops)
    return culprit_finding(results, culprit, replace(_symptom(results, failures, first.test.stage), details=details))


def _without_culprit(results: ProbeResults, stops: Sequence[Stop]) -> Iterator[Finding]:
    groups = list(nearest(stops, results.observations))
    pairs = [stop for stop, _ in groups if len(stop.members) == 2 and not passed_later(stop, results.observations)]
    many_pairs = pairs if len(pairs) > _MANY else []
    if many_pairs:
        yield _many_pairs(results, many_pairs)
    for stop, neighbours in groups:
        if stop not in many_pairs:
            yield from _stop_findings(results, stop, [neighbour.told for neighbour in neighbours])


def _many_pairs(results: ProbeResults, stops: Sequence[Stop]) -> Finding:
    """Return the finding about so many pairs that their links are not the cause. It reports only their common
    properties."""
    first, failures = stops[0], [observation for stop in stops for observation in stop.seen]
    places = {place for stop in stops for place in stop.places}
    return culprit_finding(
        results,
        unproven("group", sorted(places), failures, failures[0].test.outcome),
        replace(
            _symptom(results, failures, first.stage),
            summary=f"both devices of {len(stops)} pairs stopped, so the culprit cannot be identified",
            details=[
                f"{' with '.join(sorted(stop.places))} ({test_words(stop.ids)}), last stage: {stop.stage}"
                for stop in stops
            ],
        ),
    )


def _stop_findings(results: ProbeResults, stop: Stop, neighbours: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings about a group that stopped together. `neighbours`: the stops that follow from it."""
    first = stop.seen[0]
    details = (*evidence(results.scribe.cluster, first, first.ranks), test_words(stop.ids), *neighbours)
    later = passed_later(stop, results.observations)
    once = f". A later test of the same ranks passed ({later})" if later else ""
    if len(stop.members) == 2:
        yield from _pair_findings(results, stop, details, once)
        return
    symptom = _symptom(results, stop.seen, stop.stage)
    yield culprit_finding(
        results,
        unproven("group", sorted(stop.places), stop.seen, first.test.outcome),
        replace(
            symptom,
            summary=f"all {len(stop.members)} ranks stopped {activity(stop.stage)}. They waited for one another "
            f"{found_at(first.ranks[0])}{once}",
            details=details,
            cause=": ".join(filter(None, ("a problem that all ranks share", symptom.cause))),
        ),
    )


def _pair_findings(results: ProbeResults, stop: Stop, details: Sequence[str], once: str) -> list[Finding]:
    """Return the findings about a pair, one for each of its hosts.

    Neither is proven at fault, and neither is ruled out, unless facts decide between them, or the pair passed when it
    was tried again, as `once` says."""
    findings = [_end_finding(results, stop, ends, details, once) for ends in (stop.members, stop.members[::-1])]
    attributed = [finding for finding in findings if _is_at_fault(finding)]
    hosts = {member.host for member in stop.members}
    return attributed or (findings if len(hosts) == 2 and not once else findings[:1])


def _end_finding(
    results: ProbeResults, stop: Stop, ends: Sequence[Member], details: Sequence[str], once: str
) -> Finding:
    """Return the finding about the first of the two ends of a pair that stopped together."""
    member, peer = ends
    symptom = _symptom(results, stop.seen, stop.stage, member)
    return culprit_finding(
        results,
        unproven("link", (member.place, peer.place), stop.seen, stop.seen[0].test.outcome),
        replace(
            symptom,
            summary=f"{link_ends((member.place, peer.place))} both stopped {activity(stop.stage)}{once}",
            details=details,
            cause=symptom.cause or "one of the two ends, or the path between them",
        ),
        Outcome.WARN if once else Outcome.FAIL,
    )


def _is_at_fault(finding: Finding) -> bool:
    """Return whether the finding is about the object that facts show to be at fault."""
    members = finding.culprit.members if finding.culprit else ()
    return finding.host in members or f"{finding.host}/{finding.device}" in members


def _trouble(view: RankView) -> str:
    """Return a class of cause, for programs."""
    endings = {
        End.LOST: "host lost",
        End.KILLED: "killed",
        End.EXITED: "left without a word",
        End.UNBORN: "never started",
    }
    return endings.get(view.end or End.OVERDUE, f"{'failed' if view.error else 'stuck'} {found_at(view, noun='')}")


def _no_connection(observation: Observation, stage: str) -> str:
    """Return the place where ranks are to meet, if the rank did not reach it; else empty."""
    meeting = observation.meeting
    return f"no connection to {meeting.place}" if stage == "device" and meeting else ""


def _meaning(cluster: Cluster, observation: Observation, stage: str, errors: Iterable[str], state: str = "") -> Meaning:
    """Return the meaning of a known error, else that of the process's state or of the stage alone."""
    backend = observation.meeting.backend if observation.meeting else cluster.probe.backend
    return next(filter(None, map(meaning, errors)), None) or usual(stage, backend, state)


def _commands(scribe: All, error_meaning: Meaning, observation: Observation, member: Member) -> tuple[str, ...]:
    """Return the commands of the remedy for a rank, as typed on this machine."""
    address, _, port = observation.meeting.place.rpartition(":") if observation.meeting else ("", "", "")
    on_host = (
        _on_host(scribe, member, command, f"{address} {port}")
        for command in error_meaning.commands
        if port.isdigit() or "{rendezvous}" not in command
    )
    return (*on_host, *error_meaning.explanations)


def _on_host(scribe: All, member: Member, command: str, rendezvous: str) -> str:
    """Return a command for the rank's host as typed on this machine. Packages are for the jobs' Python."""
    if command.startswith(_PIP):
        (on_host,) = pip_install(scribe, member.host, command.removeprefix(_PIP).split())
        return on_host
    return scribe.on(member.host, command.format(device=member.device, rendezvous=rendezvous))


def _end(view: RankView) -> str:
    """Return how the rank ended, in words, at which stage, and the first line of its error."""
    error = first_line(view)
    end = {
        End.EXITED: "exited without an error message",
        End.KILLED: "was killed by a signal",
        End.LOST: "failed",
        End.UNBORN: "did not start",
    }.get(view.end or End.OVERDUE, "failed" if error else "hung")
    doing = activity(view.stage, view.state if view.stands_still else "")
    return f"{end} {doing}" + (f": {error}" if error else "")
