"""Tests have failed: what the hosts' facts say of it, looked at once more."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from preflight.cli.background import FOR_EVER, left
from preflight.cli.common import Session
from preflight.facts.found import Found
from preflight.facts.nic import Nic, NicDevice
from preflight.facts.types import ClusterFacts, HostFacts, Unreachable
from preflight.model.cluster import Host
from preflight.model.finding import Finding
from preflight.model.measure import TestOutcome
from preflight.model.outcome import Outcome

if TYPE_CHECKING:
    from preflight.probe.run import Seen

_BAD = (TestOutcome.FAIL, TestOutcome.HANG, TestOutcome.WRONG_DATA)
_LEAST = 20.0  # seconds that a look takes, with its pings, in the worst case; with less left it is not begun


def causes(
    s: Session, hosts: Sequence[Host], seen: "Seen", before: ClusterFacts, until: float = FOR_EVER
) -> tuple[Finding, ...]:
    """What the checks of facts and pings find wrong now; nothing where no test failed, or no time is left. `before`:
    facts from before the tests, so that NIC109 counts what went wrong since."""
    from preflight.checks.registry import ROUNDS, all_checks
    from preflight.checks.run import run_checks
    from preflight.facts.collect import collect
    from preflight.facts.ping_plan import plan_pings
    from preflight.facts.pings import ping

    remaining = left(until)
    concerned = _concerned(seen)
    if not concerned or (remaining is not None and remaining < _LEAST):
        return ()
    s.progress.say("tests have failed: asking the hosts why")
    facts = collect(s.cluster, hosts, s.transport, progress=s.progress, ports=s.cluster.ports, deep=True)
    facts = _counted_since(facts, before)
    plan = [one for one in plan_pings(s.cluster, facts).pings if {one.host, one.peer.partition("/")[0]} & concerned]
    rounds = {"pings": ping(s.cluster, facts, s.transport, plan, s.progress)}
    checks = [check for check in all_checks().values() if not (set(ROUNDS) - {"pings"}) & set(check.needs)]
    findings = run_checks(s.cluster, facts, checks=checks, hosts=hosts, rounds=rounds)
    return tuple(finding for finding in findings if finding.outcome in (Outcome.FAIL, Outcome.WARN))


def _concerned(seen: "Seen") -> set[str]:
    """The hosts that are named, or where nobody is, those of the tests that failed."""
    named = {member.partition("/")[0] for one in seen.located for member in one.members}
    failed = (one.test for one in seen.observations if one.test.outcome in _BAD)
    return named or {member.host for test in failed for member in test.members}


def _counted_since(facts: ClusterFacts, before: ClusterFacts) -> ClusterFacts:
    """The facts, with what the devices' counters have counted since `before`, where that is known."""

    def of(host: str, now: HostFacts | Unreachable) -> HostFacts | Unreachable:
        then = before.hosts.get(host)
        if not (isinstance(now, HostFacts) and isinstance(now.nic, Nic)):
            return now
        known = then.nic.devices if isinstance(then, HostFacts) and isinstance(then.nic, Nic) else ()
        return replace(now, nic=Nic(tuple(_since(now.nic.devices, known))))

    return replace(facts, hosts={host: of(host, now) for host, now in facts.hosts.items()})


def _since(now: Iterable[NicDevice], then: Iterable[NicDevice]) -> Iterable[NicDevice]:
    first = {device.index: device.packets.value or {} for device in then}
    for device in now:
        if device.packets.value:
            counted = {key: max(0, count - first.get(device.index, {}).get(key, 0))
                       for key, count in device.packets.value.items()}  # fmt: skip
            yield replace(device, packets=Found(counted))
        else:
            yield device
