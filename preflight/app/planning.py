"""Changes that may be made now, from hosts or saved facts; shared by `plan` and `configure`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import NamedTuple

from preflight.app.options import ChangePermissions
from preflight.app.session import Session
from preflight.app.site_engine import engine_of
from preflight.checks.engine.registry import all_checks
from preflight.checks.engine.run import run_checks
from preflight.checks.engine.waivers import apply_waivers
from preflight.facts.types import ClusterFacts, Unreachable
from preflight.model.change import Area, Change, Kind, Plan
from preflight.model.errors import PreflightError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.provision.apply import Way, put_in_order, who_is_at_work
from preflight.provision.hold import held_back, not_reached, not_seen, same_machine, unfinished, where_root
from preflight.provision.plan import make_plan
from preflight.provision.precheck import not_asked, questions, taken
from preflight.report.build import new_run_id

NO_HOST = "no host was reached, so no changes are known"


@dataclass(frozen=True)
class HostsState:
    """Current state of the hosts: findings of the areas' checks, and the changes that they request.

    `notes` are on hosts of interrupted runs that were put in order before. `at_work` has the hosts on which another run
    is active, and its owner.
    """

    facts: ClusterFacts
    findings: tuple[Finding, ...]
    plan: Plan
    notes: tuple[str, ...] = ()
    at_work: Mapping[str, str] = field(default_factory=dict)


def nothing(state: HostsState) -> str:
    """Return the text for an empty plan, which proves nothing if no host was reached."""
    all_away = all(isinstance(facts, Unreachable) for facts in state.facts.hosts.values())
    return NO_HOST if all_away else "nothing to change"


def look(s: Session, areas: Sequence[Area], *, temporary: bool = False) -> HostsState:
    """Collect the facts of the session's hosts and judge them by the checks of `areas`."""
    return judge(s, s.collect(), areas, temporary=temporary)


def only_look(s: Session, areas: Sequence[Area], *, temporary: bool = False) -> HostsState:
    """Collect and judge without the intent to change anything.

    Hosts with an unfinished run are asked which run is active.
    """
    current = look(s, areas, temporary=temporary)
    if not (unfinished_runs := unfinished(current.facts)):
        return current
    way = Way(s.hosts, s.transport, s.pool, s.progress)
    return replace(current, at_work=who_is_at_work(unfinished_runs, way, new_run_id(datetime.now(UTC))))


def look_in_order(s: Session, areas: Sequence[Area], confirm_within: float, *, temporary: bool = False) -> HostsState:
    """Collect and judge, in order to change the hosts.

    The firewall changes of an interrupted run may still revert. Such hosts are put in order first, and collected again.
    """
    current = look(s, areas, temporary=temporary)
    cut_off = unfinished(current.facts)
    if not cut_off:
        return current
    way = Way(s.hosts, s.transport, s.pool, s.progress, confirm_within)
    put_right = put_in_order(cut_off, way, new_run_id(datetime.now(UTC)))
    again = look(s, areas, temporary=temporary)
    at_work = {name: put_right.at_work[name] for name in unfinished(again.facts) if name in put_right.at_work}
    return replace(again, notes=put_right.notes, at_work=at_work)


def judge(s: Session, facts: ClusterFacts, areas: Sequence[Area], *, temporary: bool = False) -> HostsState:
    """Return the findings of the checks of `areas`, and the plan that follows from them."""
    checks = [check for check in all_checks().values() if check.configures in areas]
    raw_findings = run_checks(s.cluster, facts, checks=checks, hosts=s.hosts)
    findings = tuple(apply_waivers(raw_findings, s.cluster.waivers, (), date.today()))
    plan = make_plan(_not_accepted(raw_findings, findings), areas, temporary=temporary)
    return HostsState(facts, tuple(map(_left_so, findings)) if temporary else findings, plan)


def _left_so(finding: Finding) -> Finding:
    """Turn a failure of ports at the next boot into a warning, since --temporary requests that state."""
    change = finding.change
    if finding.outcome is Outcome.FAIL and change and change.area is Area.PORTS and change.kind is Kind.FILE:
        summary = f"{finding.summary} (expected with --temporary)"
        return replace(finding, outcome=Outcome.WARN, summary=summary, change=None)
    return finding


def _not_accepted(found: Iterable[Finding], waived: Iterable[Finding]) -> list[Finding]:
    """Return the findings without the waived ones, since a person has accepted the state of these."""
    return [
        finding
        for finding, waived_finding in zip(found, waived, strict=True)
        if finding.outcome is waived_finding.outcome
    ]


def doable(s: Session, state: HostsState, permissions: ChangePermissions) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan without the changes that have to wait, and the notes to show before it.

    Raise PreflightError if a new address is in use, or if a machine is in the inventory twice.
    """
    if duplicates := same_machine(state.facts):
        s.progress.clear()
        raise PreflightError(
            "\n".join((*duplicates, "Nothing was changed. Remove one of the names from the inventory."))
        )
    plan, powerless = where_root(state.plan, state.facts)
    cut_off = unfinished(state.facts)
    plan = Plan(tuple(change for change in plan.changes if change.host not in cut_off))
    checked = safe(s, plan, state.facts, permissions)
    before = state.notes + tuple(_in_flux(host, state.at_work.get(host, "")) for host in cut_off)
    before += not_reached(state.facts) + powerless + not_seen(state.findings)
    return checked.plan, before + checked.held + checked.notes


def _in_flux(host: str, owner: str) -> str:
    if owner:
        return f"{host}: left out, since another run is active there ({owner})"
    return (
        f"{host}: a run is active there or was interrupted, so this state is temporary. To recover: preflight configure"
    )


class Safe(NamedTuple):
    """A plan without changes that have to wait, the reasons for these (`held`), and what could not be checked
    (`notes`).
    """

    plan: Plan
    held: tuple[str, ...]
    notes: tuple[str, ...] = ()


def safe(s: Session, plan: Plan, facts: ClusterFacts, permissions: ChangePermissions) -> Safe:
    """Return the plan without disturbing changes. Raise PreflightError if a new address answers already."""
    allowed, held = held_back(
        plan,
        facts,
        allow_disturbing=permissions.allow_disturbing,
        force_busy=permissions.force_busy,
        by_ssh=engine_of(s.cluster.probe.via, s.transport) is None,
    )
    address_pings, unchecked = questions(allowed, facts)
    if not address_pings:
        return Safe(allowed, held, unchecked)
    pings = s.ping(facts, address_pings)
    answered = taken(pings, facts)
    if answered:
        s.progress.clear()
        raise PreflightError("\n".join((*answered, "Nothing was changed. Correct the inventory or free the address.")))
    return Safe(allowed, held, unchecked + not_asked(pings))


def device_facts(s: Session, changes: Iterable[Change]) -> ClusterFacts:
    """Collect the facts that are needed before devices are changed: users of the devices, and addresses that answer.

    Return no facts if no device is to be changed.
    """
    names = {change.host for change in changes if change.device is not None}
    if not names:
        return ClusterFacts({})
    hosts = [host for host in s.hosts if host.name in names]
    return s.collect(hosts, sections=("hccn", "npu_smi"), readings=("ip", "link"))
