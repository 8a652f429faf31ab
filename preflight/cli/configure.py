"""Look at every host, show what has to change as a diff, ask, change it, and look again.

A change is made only where the host is still as it was seen; what somebody changed meanwhile is left alone. Firewall
changes take themselves back unless a new connection confirms them. Running it again finds nothing to do.

Areas: ports, device addresses, firewall; `configure-ports`, `configure-device-ips` and `configure-firewall` are the
same thing for one of them.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from preflight.cli.common import Session, add_inventory_arguments, session
from preflight.cli.pipe import silence_stdout
from preflight.model.change import Area, Kind, Plan, StepResult, StepState
from preflight.model.errors import PreflightError, UsageError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

if TYPE_CHECKING:
    from preflight.facts.types import ClusterFacts

# The modules of preflight/checks that belong to an area: they carry its changes, or judge what became of them.
MODULES = {
    Area.PORTS: ("ports",),
    Area.ADDRESSES: ("addresses", "devices"),
    Area.FIREWALL: ("firewall",),
}
PENDING = 5


def add_arguments(parser: argparse.ArgumentParser, areas: Sequence[Area] = tuple(Area)) -> None:
    add_inventory_arguments(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be changed")
    parser.add_argument("--exit-code", action="store_true", help="with --dry-run: end with 5 if something would change")
    if Area.PORTS in areas:
        parser.add_argument("--temporary", action="store_true", help="reserve the ports until the next boot only")
    parser.add_argument(
        "--allow-disturbing", action="store_true", help="also change what may disturb something that runs on a host now"
    )
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")


def run(args: argparse.Namespace) -> int:
    return configure(args, tuple(Area))


@dataclass(frozen=True)
class _Look:
    """The hosts as they are: what the checks of the areas say, and the changes they ask for."""

    facts: "ClusterFacts"
    findings: tuple[Finding, ...]
    plan: Plan


def configure(args: argparse.Namespace, areas: Sequence[Area]) -> int:
    """The one way of all `configure` commands, limited to `areas`; returns the exit code."""
    from preflight.cli.configure_output import Ending, finish

    _refuse_what_cannot_be_asked(args)
    started = datetime.now(UTC)
    with session(args) as s:
        before = _look(s, areas, args)
        plan, notes = _doable(s, before, args)
        if args.output == "console":
            _show(s, plan, notes)
        if args.dry_run:
            untouched = Ending(before.findings, before.findings, plan, (), notes)
            return finish(args, s, started, untouched, _dry_exit(args, before, plan))
        if plan.changes and not (args.yes or _agreed(plan)):
            print("nothing was changed", file=sys.stderr)
            return PENDING
        results = _apply(args, s, plan, started)
        after = _look(s, areas, args) if results else before
        ending = Ending(before.findings, after.findings, plan, results, notes)
        return finish(args, s, started, ending, _exit(after, results))


def _show(s: Session, plan: Plan, notes: Sequence[str]) -> None:
    """The plan on stdout. Raises PreflightError where its reader goes away: nothing is changed that nobody saw."""
    from preflight.cli.configure_output import show_plan

    try:
        show_plan(s, plan, notes)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        raise PreflightError("nobody read the plan to its end, so nothing was changed") from None


def _refuse_what_cannot_be_asked(args: argparse.Namespace) -> None:
    if args.yes or args.dry_run:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on; add -y to apply without asking, or --dry-run to only look")
    if args.output == "json":
        raise UsageError("-o json asks nobody; add -y to apply without asking, or --dry-run to only look")


def _look(s: Session, areas: Sequence[Area], args: argparse.Namespace) -> _Look:
    from preflight.checks.registry import ROUNDS, all_checks
    from preflight.checks.run import run_checks
    from preflight.checks.waive import apply_waivers
    from preflight.facts.collect import collect
    from preflight.provision.plan import make_plan

    modules = {module for area in areas for module in MODULES[area]}
    checks = [check for check in all_checks().values() if check.area in modules and not set(check.needs) & set(ROUNDS)]
    facts = collect(s.cluster, s.hosts, s.transport, progress=s.progress, ports=s.cluster.ports, pool=args.pool)
    found = run_checks(s.cluster, facts, checks=checks, hosts=s.hosts)
    findings = tuple(apply_waivers(found, s.cluster.waivers, (), date.today()))
    temporary = getattr(args, "temporary", False)
    plan = make_plan(_not_accepted(found, findings), areas, temporary=temporary)
    return _Look(facts, tuple(map(_left_so, findings)) if temporary else findings, plan)


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


def _doable(s: Session, look: _Look, args: argparse.Namespace) -> tuple[Plan, tuple[str, ...]]:
    """The plan without what has to wait, and why it has to. Raises PreflightError where a new address is taken."""
    from preflight.facts.collect import ping
    from preflight.provision.plan import held_back, not_reached, not_seen
    from preflight.provision.precheck import not_asked, questions, taken

    plan, held = held_back(look.plan, look.facts, allow_disturbing=args.allow_disturbing)
    asked, nobody_to_ask = questions(plan, look.facts)
    notes = not_reached(look.facts) + not_seen(look.findings) + held + nobody_to_ask
    if not asked:
        return plan, notes
    pings = ping(s.cluster, look.facts, s.transport, asked, s.progress, pool=args.pool)
    answered = taken(pings, look.facts)
    if answered:
        s.progress.clear()
        raise PreflightError("\n".join((*answered, "nothing was changed; correct the inventory, or free the address")))
    return plan, notes + not_asked(pings)


def _agreed(plan: Plan) -> bool:
    hosts = len(plan.hosts)
    print(f"Apply to {hosts} host{'' if hosts == 1 else 's'}? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in ("y", "yes")


def _apply(args: argparse.Namespace, s: Session, plan: Plan, started: datetime) -> tuple[StepResult, ...]:
    from preflight.provision.apply import CONFIRM_SECONDS, JOURNAL, apply
    from preflight.report.build import new_run_id

    if not plan.changes:
        return ()
    run_id = new_run_id(started)
    try:
        return tuple(apply(plan, s.hosts, s.transport, run=run_id, pool=args.pool, progress=s.progress))
    except KeyboardInterrupt:
        s.progress.clear()
        print(
            "preflight: every host ends the change it is at and begins no other; firewall changes not yet confirmed "
            f"are taken back within {CONFIRM_SECONDS:g} s. What was done stands in {JOURNAL}/{run_id}.jsonl on each "
            "host; run the same command again to go on.",
            file=sys.stderr,
        )
        raise


def _exit(after: _Look, results: Iterable[StepResult]) -> int:
    """1: a change did not end well, one is still wanted, or something failed all the same; 3: something could not be
    looked at; else 0."""
    well = all(result.state in (StepState.DONE, StepState.ALREADY) for result in results)
    if not well or after.plan.changes or any(finding.outcome is Outcome.FAIL for finding in after.findings):
        return 1
    return 3 if _blind(after) else 0


def _dry_exit(args: argparse.Namespace, look: _Look, plan: Plan) -> int:
    if args.exit_code and plan.changes:
        return PENDING
    return 3 if _blind(look) else 0


def _blind(look: _Look) -> bool:
    """Whether something was not to be seen: a host, or a part of one."""
    from preflight.facts.types import Unreachable

    away = any(isinstance(facts, Unreachable) for facts in look.facts.hosts.values())
    return away or any(finding.outcome is Outcome.UNKNOWN for finding in look.findings)
