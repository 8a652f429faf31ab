"""`preflight rollback`: changes of a run, taken back in reverse order."""

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from preflight.app.planning import device_facts, safe
from preflight.app.saved.named_run import changing_run
from preflight.app.session import Session, session
from preflight.cli.change_options import change_permissions
from preflight.cli.changes.change_output import RunResults, finish_run, say, show_plan
from preflight.cli.changes.questions import (
    PENDING,
    ChangeRun,
    Undoes,
    agreed,
    carry_out,
    refuse_what_cannot_be_asked,
    shown,
)
from preflight.cli.options import again, host_options
from preflight.gate.install import undoing_allowed
from preflight.model.change import Plan, StepState
from preflight.provision.apply import Way
from preflight.provision.journal import PastRun, past_runs
from preflight.provision.lost_journals import what_is_left
from preflight.provision.rollback import Undoing, undoing, undoing_in_order
from preflight.report.build import new_run_id


@dataclass(frozen=True)
class _Rollback:
    """A run that is to be taken back, as its hosts report it.

    `past` is what this machine recorded of it, if anything. `held` are reasons why changes wait, `away` sentences about
    hosts that could not be asked.
    """

    past: PastRun | None
    hosts: tuple[str, ...]
    undo: Undoing
    plan: Plan
    held: tuple[str, ...]
    away: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def short(self) -> bool:
        """Return whether something is not taken back.

        A run that no host knows is most likely a mistyped id, or its journals were deleted. A run that was started here
        may also have reached no host.
        """
        reached_no_host = self.past is not None and not self.past.states.get(StepState.DONE)
        return bool(self.away or self.held) or not (self.undo.known or reached_no_host)

    def undoes(self, run: str) -> Undoes | None:
        """Return what the history gets: nothing if there may have been nothing to take back."""
        touched = self.past is not None and self.past.touched
        return Undoes(run, self.hosts) if self.plan.changes or touched else None


def run(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    past = _past_run(args)
    refuse_what_cannot_be_asked(args, dry_run=args.dry_run)
    args.inventory = args.inventory or Path(past.inventory if past else "")
    with session(host_options(args)) as s:
        rollback = _ask_hosts(args, s, past, started)
        if args.output == "console":
            shown(show_plan, s, rollback.plan, rollback.notes, "nothing to undo")
        if args.dry_run:
            say(s, "nothing was changed (--dry-run)", f"next: {again(args)}")
            return 3 if rollback.away else 0
        if rollback.plan.changes and not agreed(args, rollback.plan, "Undo on"):
            return PENDING
        change_run = ChangeRun(rollback.plan, started, rollback.short, rollback.undoes(args.run_id))
        run_id, applied = carry_out(args, s, change_run)
        at_work = {**rollback.undo.at_work, **applied.at_work}
        return finish_run(args, s, RunResults(run_id, applied.results, rollback.notes, at_work, rollback.short))


def _past_run(args: argparse.Namespace) -> PastRun | None:
    """Return what this machine recorded of the run. Next commands name it by its id, even after newer runs."""
    past = changing_run(args.run_id, args.inventory)
    if past is not None:
        args.argv = [past.run if word == args.run_id else word for word in args.argv]
        args.run_id = past.run
    return past


def _ask_hosts(args: argparse.Namespace, s: Session, past: PastRun | None, started: datetime) -> _Rollback:
    """Ask the run's hosts what it did there. Unless in a dry run, put hosts in order first on which it was cut off."""
    hosts = [host for host in s.hosts if past is None or host.name in past.hosts]
    way, this_run = Way(hosts, s.transport, args.pool, s.progress, args.confirm_within), new_run_id(started)
    ask = undoing if args.dry_run else undoing_in_order
    undo = ask(args.run_id, way, this_run, past.changes if past else ())
    allowed, started_by = undoing_allowed(undo.plan, way)
    plan, held, unchecked = safe(s, allowed, device_facts(s, allowed.changes), change_permissions(args))
    held += started_by
    unknown = what_is_left(args.run_id, undo, tuple(past_runs()), way, this_run)
    away = (*_hosts_removed(past, s), *undo.away, *unknown.away)
    notes = (*away, *unknown.notes, *undo.notes, *undo.keeps, *held, *unchecked)
    if args.dry_run:
        notes += tuple(f"{name}: {why}" for name, why in undo.unfinished.items())
    return _Rollback(past, tuple(host.name for host in hosts), undo, plan, held, away, notes)


def _hosts_removed(past: PastRun | None, s: Session) -> tuple[str, ...]:
    """Return a sentence for each host of the run that is no longer in the inventory."""
    names = {host.name for host in s.cluster.hosts}
    missing = [name for name in past.hosts if name not in names] if past else []
    return tuple(f"{name}: no longer in the inventory, so its changes stay" for name in missing)
