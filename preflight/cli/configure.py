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
from preflight.model.change import Area, Plan, StepResult, StepState
from preflight.model.errors import PreflightError, UsageError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

if TYPE_CHECKING:
    from preflight.facts.types import ClusterFacts
    from preflight.provision.render import Line

_MODULES = {Area.PORTS: "ports", Area.ADDRESSES: "devices", Area.FIREWALL: "firewall"}  # of preflight/checks
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


@dataclass(frozen=True)
class _Outcome:
    """What there is to tell at the end."""

    before: _Look
    after: _Look
    plan: Plan  # what was to be done
    results: tuple[StepResult, ...]
    notes: tuple[str, ...]


def configure(args: argparse.Namespace, areas: Sequence[Area]) -> int:
    """The one way of all `configure` commands, limited to `areas`; returns the exit code."""
    _refuse_what_cannot_be_asked(args)
    started = datetime.now(UTC)
    with session(args) as s:
        before = _look(s, areas, args)
        plan, notes = _doable(s, before, args)
        if args.output == "console":
            _show_plan(s, plan, notes)
        if args.dry_run:
            return _finish(args, s, started, _Outcome(before, before, plan, (), notes), _dry_exit(args, before, plan))
        if plan.changes and not (args.yes or _agreed(plan)):
            print("nothing was changed", file=sys.stderr)
            return PENDING
        results = _apply(args, s, plan, started)
        after = _look(s, areas, args) if results else before
        end = _Outcome(before, after, plan, results, notes)
        return _finish(args, s, started, end, _exit(end))


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

    modules = {_MODULES[area] for area in areas}
    checks = [check for check in all_checks().values() if check.area in modules and not set(check.needs) & set(ROUNDS)]
    facts = collect(s.cluster, s.hosts, s.transport, progress=s.progress, ports=s.cluster.ports, pool=args.pool)
    found = run_checks(s.cluster, facts, checks=checks, hosts=s.hosts)
    findings = tuple(apply_waivers(found, s.cluster.waivers, (), date.today()))
    temporary = getattr(args, "temporary", False)
    return _Look(facts, findings, make_plan(_not_accepted(found, findings), areas, temporary=temporary))


def _not_accepted(found: Iterable[Finding], waived: Iterable[Finding]) -> list[Finding]:
    """What a waiver has turned into a warning, a person wants to stay as it is."""
    return [one for one, other in zip(found, waived, strict=True) if one.outcome is other.outcome]


def _doable(s: Session, look: _Look, args: argparse.Namespace) -> tuple[Plan, tuple[str, ...]]:
    """The plan without what has to wait, and why it has to. Raises PreflightError where a new address is taken."""
    from preflight.facts.collect import ping
    from preflight.provision.plan import held_back
    from preflight.provision.precheck import not_asked, questions, taken

    plan, notes = held_back(look.plan, look.facts, allow_disturbing=args.allow_disturbing)
    asked, more = questions(plan, look.facts)
    if not asked:
        return plan, notes + more
    pings = ping(s.cluster, look.facts, s.transport, asked, s.progress, pool=args.pool)
    answered = taken(pings, look.facts)
    if answered:
        s.progress.clear()
        raise PreflightError("\n".join((*answered, "nothing was changed; correct the inventory, or free the address")))
    return plan, notes + more + not_asked(pings)


def _agreed(plan: Plan) -> bool:
    hosts = len(plan.hosts)
    print(f"Apply to {hosts} host{'' if hosts == 1 else 's'}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _apply(args: argparse.Namespace, s: Session, plan: Plan, started: datetime) -> tuple[StepResult, ...]:
    from preflight.provision.apply import apply
    from preflight.report.build import new_run_id

    if not plan.changes:
        return ()
    run_id = new_run_id(started)
    return tuple(apply(plan, s.hosts, s.transport, run=run_id, pool=args.pool, progress=s.progress))


def _exit(end: _Outcome) -> int:
    """1: a change did not end well, or one is still wanted; 3: something could not be looked at; else 0."""
    if any(result.state not in (StepState.DONE, StepState.ALREADY) for result in end.results) or end.after.plan.changes:
        return 1
    return 3 if _blind(end.after) else 0


def _dry_exit(args: argparse.Namespace, look: _Look, plan: Plan) -> int:
    if args.exit_code and plan.changes:
        return PENDING
    return 3 if _blind(look) else 0


def _blind(look: _Look) -> bool:
    """Whether something was not to be seen: a host, or a part of one."""
    from preflight.facts.types import Unreachable

    away = any(isinstance(facts, Unreachable) for facts in look.facts.hosts.values())
    return away or any(finding.outcome is Outcome.UNKNOWN for finding in look.findings)


def _show(s: Session, lines: "Iterable[Line]") -> None:
    from preflight.report.console import show
    from preflight.report.text import Line as ReportLine

    s.progress.clear()
    styles = {"add": "pass", "remove": "fail"}
    show(ReportLine(line.text, styles.get(line.style, line.style)) for line in lines)


def _show_plan(s: Session, plan: Plan, notes: Sequence[str]) -> None:
    from preflight.inventory import fold
    from preflight.provision.render import Line, render

    _show(s, render(plan, notes, fold=fold) if plan.changes or notes else [Line("nothing to change on the hosts that were seen")])


def _finish(args: argparse.Namespace, s: Session, started: datetime, end: _Outcome, exit_code: int) -> int:
    """Say what was done, what is fixed and what is left, from the same checks run again."""
    from preflight.report.build import build

    report = build(args.command, started, [host.name for host in s.hosts], end.after.findings)
    if args.limit:
        report = replace(report, notes=(f"limited to {args.limit}, as asked",))
    if args.output == "json":
        from preflight.report.document import document

        print(_document(document(report, exit_code), end))
        return exit_code

    from preflight.checks.registry import all_checks
    from preflight.inventory import fold
    from preflight.provision.render import Line, render_fixed, render_results
    from preflight.report.console import show, width
    from preflight.report.text import render

    titles = {id_: check.title for id_, check in all_checks().items()}
    pending = args.dry_run and end.plan.changes
    next_step = f"preflight {args.command if pending else 'check'} --inventory {args.inventory}"
    if pending:
        _show(s, [Line(f"nothing was changed (--dry-run)\nnext: {next_step}")])
        return exit_code
    said = render_results(end.results, fold=fold)
    said += render_fixed(end.before.findings, end.after.findings, titles, fold=fold)
    _show(s, [*said, Line("")] if said else [])
    show(render(report, titles, fold=fold, next_step=next_step, width=width()))
    return exit_code


def _document(report: str, end: _Outcome) -> str:
    """The report (docs/contracts.md) with the changes and what was left out of them."""
    import msgspec

    states = {result.change: result for result in end.results}
    changes = []
    for change in end.plan.changes:
        result = states.get(change)
        entry = msgspec.to_builtins(change)
        entry["state"] = result.state.value if result else "pending"
        entry["found"] = result.found if result else None
        entry["message"] = result.message if result else ""
        changes.append(entry)
    body = {**msgspec.json.decode(report), "changes": changes, "held_back": end.notes}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
