"""Causes of failed tests, from facts that are collected again after the tests."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

from preflight.app.background import FOR_EVER, in_background, result_by
from preflight.app.probing.probed_devices import ProbedDevices
from preflight.app.session import Session
from preflight.checks.engine.registry import ROUNDS, all_checks
from preflight.checks.engine.run import run_checks
from preflight.checks.engine.waivers import apply_waivers
from preflight.facts.pings.plan import plan_pings
from preflight.facts.reading import Found
from preflight.facts.sections.nic import Nic, NicDevice
from preflight.facts.sections.rdma import Rdma
from preflight.facts.types import ClusterFacts, HostFacts, Unreachable
from preflight.model.finding import Finding
from preflight.model.measure import TestOutcome
from preflight.model.outcome import Outcome

_TROUBLE = (TestOutcome.FAIL, TestOutcome.HANG, TestOutcome.WRONG_DATA, TestOutcome.SLOW)
_OF_PROBE = ("PRB111", "PRB112", "PRB114", "PRB118")  # checks of a single device or host, and of ports


def causes(
    s: Session, tests: ProbedDevices, *, until: float = FOR_EVER, ignored: Iterable[str] = (), deep: bool = True
) -> tuple[Finding, ...]:
    """Return current failures and warnings of the checks that can explain failed tests.

    These are the checks of facts and pings, of single devices, and of ports. The result is empty if no test failed or
    was slow, or if the answers take longer than `until`. NIC109 counts only errors since before the tests.
    """
    observations = tests.result.observations
    if not tests.result.located and all(observation.test.outcome not in _TROUBLE for observation in observations):
        return ()
    s.progress.say("tests failed: collecting facts to find the cause")
    results: list[Finding] = result_by(in_background(lambda: _judged_again(s, tests, deep=deep)), until, [])
    findings = apply_waivers(results, s.cluster.waivers, ignored, date.today())
    return tuple(finding for finding in findings if finding.outcome in (Outcome.FAIL, Outcome.WARN))


def _judged_again(s: Session, tests: ProbedDevices, *, deep: bool) -> list[Finding]:
    """Collect the hosts' facts and pings again, and return the findings of the checks that need no more."""
    facts = counted_since(s.collect(tests.hosts, deep=deep), tests.before)
    # All pings, since a cause is what lost pings have in common.
    pings = s.ping(facts, plan_pings(s.cluster, facts).pings) if tests.pings is None else tests.pings
    rounds = {
        "pings": pings,
        "observations": tests.result.observations,
        "rehearsal": tests.rehearsal,
    }
    later = set(ROUNDS) - {"pings"}
    checks = [check for id_, check in all_checks().items() if id_ in _OF_PROBE or not later & set(check.needs)]
    return run_checks(s.cluster, facts, checks=checks, hosts=tests.hosts, rounds=rounds)


def counted_since(facts: ClusterFacts, before: ClusterFacts) -> ClusterFacts:
    """Return the facts with device counters that count from `before` on, where `before` has them."""

    def of(host: str, now: HostFacts | Unreachable) -> HostFacts | Unreachable:
        earlier_facts = before.hosts.get(host)
        if not isinstance(now, HostFacts):
            return now
        earlier = earlier_facts if isinstance(earlier_facts, HostFacts) else None
        if isinstance(now.nic, Nic):
            earlier_devices = earlier.nic.devices if earlier and isinstance(earlier.nic, Nic) else ()
            now = replace(now, nic=Nic(tuple(_since(now.nic.devices, earlier_devices))))
        if isinstance(now.rdma, Rdma) and earlier and isinstance(earlier.rdma, Rdma):
            now = replace(now, rdma=replace(now.rdma, counters=earlier.rdma.counters, seconds=None))
        return now

    return replace(facts, hosts={host: of(host, now) for host, now in facts.hosts.items()})


def _since(now: Iterable[NicDevice], then: Iterable[NicDevice]) -> Iterable[NicDevice]:
    """Yield the devices with the counts since `then`. A counter without an earlier value is left out."""
    first = {device.index: device.packets.value or {} for device in then}
    for device in now:
        earlier_counts, counts = first.get(device.index, {}), device.packets.value or {}
        counted = {key: max(0, count - earlier_counts[key]) for key, count in counts.items() if key in earlier_counts}
        yield replace(device, packets=Found(counted)) if counts else device
