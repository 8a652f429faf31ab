"""`preflight configure`: hosts are checked, changed and checked again."""

import argparse
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from preflight.app.planning import HostsState, doable, look, look_in_order, nothing, only_look
from preflight.app.session import Session, session
from preflight.cli.change_options import change_permissions
from preflight.cli.changes.change_output import ChangeEnding, finish, show_plan
from preflight.cli.changes.questions import PENDING, ChangeRun, agreed, carry_out, refuse_what_cannot_be_asked, shown
from preflight.cli.options import host_options
from preflight.facts.types import Unreachable
from preflight.model.change import Area, Plan, StepResult, StepState
from preflight.model.outcome import Outcome


def configure(args: argparse.Namespace, areas: Sequence[Area]) -> int:
    """Run a `configure` command for the given areas and return its exit code."""
    refuse_what_cannot_be_asked(args, dry_run=args.dry_run)
    started = datetime.now(UTC)
    with session(host_options(args)) as s:
        before = _look_first(s, areas, args)
        plan, notes = doable(s, before, change_permissions(args))
        if args.output == "console":
            shown(show_plan, s, plan, notes, nothing(before))
        if args.dry_run:
            untouched = ChangeEnding(before.findings, before.findings, plan, (), notes)
            return finish(args, s, started, untouched, dry_exit(args, before, plan))
        if plan.changes and not agreed(args, plan):
            return PENDING
        run_id, applied = carry_out(args, s, ChangeRun(plan, started))
        after = look(s, areas, temporary=_temporary(args)) if applied.results else before
        at_work = {**before.at_work, **applied.at_work}
        ending = ChangeEnding(before.findings, after.findings, plan, applied.results, notes, run_id, at_work)
        return finish(args, s, started, ending, 1 if at_work else _exit(after, applied.results))


def _look_first(s: Session, areas: Sequence[Area], args: argparse.Namespace) -> HostsState:
    if args.dry_run:
        return only_look(s, areas, temporary=_temporary(args))
    return look_in_order(s, areas, args.confirm_within, temporary=_temporary(args))


def _temporary(args: argparse.Namespace) -> bool:
    """Return whether ports are reserved until the next boot only. Areas without ports have no such option."""
    return "temporary" in args and bool(args.temporary)


def _exit(after: HostsState, results: Iterable[StepResult]) -> int:
    """Return 1 if a change failed or is needed, or a check fails; 3 if not everything could be checked; else 0."""
    succeeded = all(result.state in (StepState.DONE, StepState.ALREADY) for result in results)
    if not succeeded or after.plan.changes or any(finding.outcome is Outcome.FAIL for finding in after.findings):
        return 1
    return 3 if _blind(after) else 0


def dry_exit(args: argparse.Namespace, seen: HostsState, plan: Plan) -> int:
    """Return the exit code of a run without changes."""
    if args.exit_code and plan.changes:
        return PENDING
    return 3 if _blind(seen) else 0


def _blind(seen: HostsState) -> bool:
    """Return whether a host, or a part of one, could not be checked."""
    unreached = any(isinstance(facts, Unreachable) for facts in seen.facts.hosts.values())
    return unreached or any(finding.outcome is Outcome.UNKNOWN for finding in seen.findings)
