"""From hosts, or facts saved before, to what may be done there now: shared by `plan` and `configure`."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NamedTuple

from preflight.cli.common import Session
from preflight.model.change import Area, Change, Kind, Plan
from preflight.model.errors import PreflightError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

if TYPE_CHECKING:
    from preflight.facts.types import ClusterFacts

NOBODY = "nothing is known to change: no host was reached"


@dataclass(frozen=True)
class Look:
    """The hosts as they are: what the checks of the areas say, and the changes they ask for. `notes`: what was put in
    order before; `at_work`: the hosts on which another run is at work, and whose."""

    facts: "ClusterFacts"
    findings: tuple[Finding, ...]
    plan: Plan
    notes: tuple[str, ...] = ()
    at_work: Mapping[str, str] = field(default_factory=dict)


def nothing(seen: Look) -> str:
    """What there is to say of an empty plan: of hosts that nobody saw it means nothing."""
    from preflight.facts.types import Unreachable

    away = all(isinstance(facts, Unreachable) for facts in seen.facts.hosts.values())
    return NOBODY if away else "nothing to change"


def look(s: Session, areas: Sequence[Area], args: argparse.Namespace) -> Look:
    """Look at the session's hosts and judge what belongs to `areas`."""
    from preflight.facts.collect import collect

    facts = collect(s.cluster, s.hosts, s.transport, progress=s.progress, ports=s.cluster.ports, pool=args.pool)
    return judge(s, facts, areas, temporary=getattr(args, "temporary", False))


def only_look(s: Session, areas: Sequence[Area], args: argparse.Namespace) -> Look:
    """The same, where nothing is to be changed; whose run is at work is asked where one has begun and not finished."""
    from preflight.provision.apply import Way, who_is_at_work
    from preflight.provision.hold import unfinished
    from preflight.report.build import new_run_id

    seen = look(s, areas, args)
    if not (begun := unfinished(seen.facts)):
        return seen
    way = Way(s.hosts, s.transport, args.pool, s.progress)
    return replace(seen, at_work=who_is_at_work(begun, way, new_run_id(datetime.now(UTC))))


def look_in_order(s: Session, areas: Sequence[Area], args: argparse.Namespace) -> Look:
    """Look, to change what is seen. Where a run was cut off, its firewall changes may still take themselves back:
    such hosts are put in order first, and looked at again."""
    from preflight.provision.apply import Way, put_in_order
    from preflight.provision.hold import unfinished
    from preflight.report.build import new_run_id

    seen = look(s, areas, args)
    cut_off = unfinished(seen.facts)
    if not cut_off:
        return seen
    way = Way(s.hosts, s.transport, args.pool, s.progress, args.confirm_within)
    put = put_in_order(cut_off, way, new_run_id(datetime.now(UTC)))
    again = look(s, areas, args)
    at_work = {name: put.at_work[name] for name in unfinished(again.facts) if name in put.at_work}
    return replace(again, notes=put.notes, at_work=at_work)


def judge(s: Session, facts: "ClusterFacts", areas: Sequence[Area], *, temporary: bool = False) -> Look:
    """What the checks of `areas` make of the facts, and the plan that follows."""
    from preflight.checks.engine.registry import all_checks
    from preflight.checks.engine.run import run_checks
    from preflight.checks.engine.waivers import apply_waivers
    from preflight.provision.plan import make_plan

    checks = [check for check in all_checks().values() if check.configures in areas]
    found = run_checks(s.cluster, facts, checks=checks, hosts=s.hosts)
    findings = tuple(apply_waivers(found, s.cluster.waivers, (), date.today()))
    plan = make_plan(_not_accepted(found, findings), areas, temporary=temporary)
    return Look(facts, tuple(map(_left_so, findings)) if temporary else findings, plan)


def _left_so(finding: Finding) -> Finding:
    """With --temporary, what would be lost at the next boot was asked for: a warning."""
    change = finding.change
    if finding.outcome is Outcome.FAIL and change and change.area is Area.PORTS and change.kind is Kind.FILE:
        left = f"{finding.summary} (left so by --temporary)"
        return replace(finding, outcome=Outcome.WARN, summary=left, change=None)
    return finding


def _not_accepted(found: Iterable[Finding], waived: Iterable[Finding]) -> list[Finding]:
    """What a waiver has turned into a warning, a person wants to stay as it is."""
    return [one for one, other in zip(found, waived, strict=True) if one.outcome is other.outcome]


def doable(s: Session, seen: Look, args: argparse.Namespace) -> tuple[Plan, tuple[str, ...]]:
    """The plan without what has to wait, and what else is to be said before it. Raises PreflightError where it must
    not be carried out: a new address is taken, or a machine stands in the inventory twice."""
    from preflight.provision.hold import not_reached, not_seen, same_machine, unfinished, where_root

    if twice := same_machine(seen.facts):
        s.progress.clear()
        raise PreflightError("\n".join((*twice, "nothing was changed; take one of the names out of the inventory")))
    plan, powerless = where_root(seen.plan, seen.facts)
    cut_off = unfinished(seen.facts)
    plan = Plan(tuple(change for change in plan.changes if change.host not in cut_off))
    left = safe(s, plan, seen.facts, args)
    before = seen.notes + tuple(_in_flux(host, seen.at_work.get(host, "")) for host in cut_off)
    before += not_reached(seen.facts) + powerless + not_seen(seen.findings)
    return left.plan, before + left.held + left.notes


def _in_flux(host: str, owner: str) -> str:
    if owner:
        return f"{host}: another run is at work on this host ({owner}), so it is left to it"
    return (
        f"{host}: a run is at work there, or was cut off, so what it shows may not stay; preflight configure sees to it"
    )


class Safe(NamedTuple):
    """A plan without what has to wait; `held`: why it has to, `notes`: what could not be asked before."""

    plan: Plan
    held: tuple[str, ...]
    notes: tuple[str, ...] = ()


def safe(s: Session, plan: Plan, facts: "ClusterFacts", args: argparse.Namespace) -> Safe:
    """The plan without what disturbs. Raises PreflightError where a new address answers already."""
    from preflight.facts.pings.run import ping
    from preflight.provision.hold import held_back
    from preflight.provision.precheck import not_asked, questions, taken

    left, held = held_back(plan, facts, allow_disturbing=args.allow_disturbing, force_busy=args.force_busy)
    asked, nobody_to_ask = questions(left, facts)
    if not asked:
        return Safe(left, held, nobody_to_ask)
    pings = ping(s.cluster, facts, s.transport, asked, s.progress, pool=args.pool)
    answered = taken(pings, facts)
    if answered:
        s.progress.clear()
        raise PreflightError("\n".join((*answered, "nothing was changed; correct the inventory, or free the address")))
    return Safe(left, held, nobody_to_ask + not_asked(pings))


def device_facts(s: Session, changes: Iterable[Change], pool: int) -> "ClusterFacts":
    """What has to be known of hosts before their devices are touched: who uses them, and which addresses answer. Empty
    where no device is to be touched."""
    from preflight.facts.collect import collect
    from preflight.facts.types import ClusterFacts

    names = {change.host for change in changes if change.device is not None}
    if not names:
        return ClusterFacts({})
    hosts = [host for host in s.hosts if host.name in names]
    return collect(
        s.cluster,
        hosts,
        s.transport,
        progress=s.progress,
        ports=s.cluster.ports,
        pool=pool,
        sections=("hccn", "npu_smi"),
        readings=("ip", "link"),
    )
