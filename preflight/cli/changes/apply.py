"""`preflight apply`: a saved plan is compared with the hosts, confirmed and carried out."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from preflight.app.planning import device_facts, safe
from preflight.app.session import Session, session
from preflight.bounded_file import read_bounded
from preflight.cli.change_options import change_permissions
from preflight.cli.changes.change_output import RunResults, finish_run, show_plan
from preflight.cli.changes.next_command import plan_anew
from preflight.cli.changes.questions import PENDING, ChangeRun, agreed, carry_out, refuse_what_cannot_be_asked, shown
from preflight.cli.options import host_options
from preflight.model.change import Plan, StepResult, StepState
from preflight.model.errors import PreflightError, UsageError
from preflight.provision.apply import Way, compare
from preflight.provision.document import LARGEST, SavedPlan, limited, load
from preflight.provision.render_results import stale
from preflight.report.build import new_run_id


def run(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    saved = load(_read(args.plan), str(args.plan))
    args.inventory = args.inventory or Path(saved.inventory)
    refuse_what_cannot_be_asked(args)
    with session(host_options(args)) as s:
        _refuse_strangers(args, s, saved)
        wanted = limited(saved.plan, [host.name for host in s.hosts])
        safe_plan, held_notes, unchecked = safe(s, wanted, device_facts(s, wanted.changes), change_permissions(args))
        failed_results = _refuse_stale(args, s, safe_plan) if safe_plan.changes else ()
        plan, notes = _without_hosts(safe_plan, failed_results), saved.held_back + held_notes + unchecked
        if args.output == "console":
            shown(show_plan, s, plan, notes, whole=True)
        if plan.changes and not agreed(args, plan):
            return PENDING
        short = bool(held_notes or failed_results)
        run_id, applied = carry_out(args, s, ChangeRun(plan, started, short))
        results = (*applied.results, *failed_results)
        blind = bool(saved.held_back) and not saved.plan.changes
        return finish_run(args, s, RunResults(run_id, results, notes, applied.at_work, short, blind))


def _without_hosts(plan: Plan, failed: Sequence[StepResult]) -> Plan:
    """Return the plan for the hosts without a failure."""
    failed_hosts = {result.change.host for result in failed}
    return limited(plan, [host for host in plan.hosts if host not in failed_hosts])


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, LARGEST)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file. To write a plan: preflight plan --out {path}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}. To write a plan: preflight plan --out plan.json") from None


def _refuse_strangers(args: argparse.Namespace, s: Session, saved: SavedPlan) -> None:
    """Raise UsageError if the plan is not for this inventory, before any host is contacted."""
    devices_of = {host.name: {device.index for device in host.devices} for host in s.cluster.hosts}
    if saved.cluster != s.cluster.name:
        raise UsageError(f"{args.plan} is for cluster {saved.cluster}, but {args.inventory} is of {s.cluster.name}")
    for change, line in zip(saved.plan.changes, saved.lines, strict=True):
        if change.host not in devices_of:
            raise UsageError(f"{args.plan}:{line}: {change.host} is not in {args.inventory}")
        if change.device is not None and change.device not in devices_of[change.host]:
            raise UsageError(f"{args.plan}:{line}: device {change.device} of {change.host} is not in {args.inventory}")


def _refuse_stale(args: argparse.Namespace, s: Session, plan: Plan) -> tuple[StepResult, ...]:
    """Compare every host with the plan and return the results of hosts that could not be compared.

    Raise PreflightError if a host has changed since the plan was made.
    """
    way = Way(s.hosts, s.transport, args.pool, s.progress)
    compared = compare(plan, way, new_run_id(datetime.now(UTC)))
    moved = [result for result in compared if result.state is StepState.MOVED]
    if moved:
        s.progress.clear()
        raise PreflightError(
            "\n".join(
                (
                    f"{args.plan} is stale. Nothing was changed.",
                    *map(stale, moved),
                    f"next: {plan_anew(args)}",
                )
            )
        )
    failed = {result.change.host for result in compared if result.state is StepState.FAILED}
    return tuple(result for result in compared if result.change.host in failed)
