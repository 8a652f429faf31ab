"""`preflight rollback`: changes of a run, taken back in reverse order."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from preflight.app.planning import device_facts, safe
from preflight.app.saved.named_run import changing_run
from preflight.app.session import Session, session
from preflight.cli.change_options import change_permissions
from preflight.cli.changes.change_output import finish_run, say, show_plan
from preflight.cli.changes.questions import PENDING, Undoes, agreed, carry_out, refuse_what_cannot_be_asked, shown
from preflight.cli.options import again, host_options
from preflight.gate.install import undoing_allowed
from preflight.model.change import StepState
from preflight.provision.apply import Way
from preflight.provision.journal import PastRun, past_runs
from preflight.provision.lost_journals import what_is_left
from preflight.provision.rollback import undoing, undoing_in_order
from preflight.report.build import new_run_id


def run(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    past = changing_run(args.run_id, args.inventory)
    if past is not None:  # so that next commands name this run, even after newer ones
        args.argv = [past.run if word == args.run_id else word for word in args.argv]
        args.run_id = past.run
    refuse_what_cannot_be_asked(args, dry_run=args.dry_run)
    args.inventory = args.inventory or Path(past.inventory if past else "")
    with session(host_options(args)) as s:
        hosts = [host for host in s.hosts if past is None or host.name in past.hosts]
        way = Way(hosts, s.transport, args.pool, s.progress, args.confirm_within)
        undo = (undoing if args.dry_run else undoing_in_order)(
            args.run_id, way, new_run_id(started), past.changes if past else ()
        )
        allowed, started_by = undoing_allowed(undo.plan, way)
        plan, held, unchecked = safe(s, allowed, device_facts(s, allowed.changes), change_permissions(args))
        held += started_by
        unknown = what_is_left(args.run_id, undo, tuple(past_runs()), way, new_run_id(started))
        away = (*_gone(past, s), *undo.away, *unknown.away)
        notes = (*away, *unknown.notes, *undo.notes, *undo.keeps, *held, *unchecked)
        if args.dry_run:
            notes += tuple(f"{name}: {why}" for name, why in undo.unfinished.items())
        if args.output == "console":
            shown(show_plan, s, plan, notes, "nothing to take back")
        if args.dry_run:
            say(s, "nothing was changed (--dry-run)", f"next: {again(args)}")
            return 3 if away else 0
        if plan.changes and not agreed(args, plan, "Take back on"):
            return PENDING
        # A rollback without changes gets a line of history only if there may have been something to take back.
        undoes = Undoes(args.run_id, tuple(host.name for host in hosts)) if plan.changes or _touched(past) else None
        # No host knows the run: most likely a mistyped id, or its journals were deleted. A run that was started here
        # may also have reached no host.
        short = bool(away or held) or not (undo.known or (past and not past.states.get(StepState.DONE)))
        run_id, applied = carry_out(args, s, plan, started, undoes=undoes, short=short)
        at_work = {**undo.at_work, **applied.at_work}
        return finish_run(args, s, run_id, applied.results, notes, short=short, at_work=at_work)


def _touched(past: PastRun | None) -> bool:
    return past is not None and past.touched


def _gone(past: PastRun | None, s: Session) -> tuple[str, ...]:
    """Return a sentence for each host of the run that is no longer in the inventory."""
    names = {host.name for host in s.cluster.hosts}
    missing = [name for name in past.hosts if name not in names] if past else []
    return tuple(f"{name}: not in the inventory any more, so it stays as the run left it" for name in missing)
