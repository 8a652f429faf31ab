"""Questions before hosts are changed, and the journalled run, shared by the commands that change hosts."""

import argparse
import select
import shlex
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

from preflight.app.progress_line import ProgressLine
from preflight.app.session import Session
from preflight.cli.pipe import silence_stdout
from preflight.model.change import Plan
from preflight.model.errors import PreflightError, UsageError
from preflight.provision.apply import Applied, Way, apply
from preflight.provision.host_run import JOURNAL
from preflight.provision.journal import RunJournal, require_directory
from preflight.provision.rollout import Rollout, failed_hosts
from preflight.report.build import new_run_id
from preflight.report.next_step import options

PENDING = 5


def refuse_what_cannot_be_asked(args: argparse.Namespace, *, dry_run: bool = False) -> None:
    """Raise UsageError if a change could not be confirmed by the user or recorded in the journal."""
    if dry_run:
        return
    require_directory()
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"no terminal for the confirmation\n{_without_asking(args)}")
    if args.output == "json":
        raise UsageError(f"-o json cannot ask for confirmation\n{_without_asking(args)}")


def _without_asking(args: argparse.Namespace) -> str:
    """Name the commands that need no answer: the same one with -y, and the one that only shows the changes."""
    command = shlex.join(["preflight", *args.argv])
    preview = (
        f"{command} --dry-run"
        if hasattr(args, "dry_run")
        else f"preflight plan {options(args.inventory, args.limit, args.via)}"
    )
    return f"to change the hosts without asking: {command} -y\nto see the changes: {preview}"


def shown(show: Callable[..., None], *arguments: object, **options: object) -> None:
    """Show the plan on stdout. Raise PreflightError if its reader goes away, so that no unread plan is applied."""
    try:
        show(*arguments, **options)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        raise PreflightError("stdout was closed before the plan was printed. Nothing was changed.") from None


def agreed(args: argparse.Namespace, plan: Plan, what: str = "Apply to") -> bool:
    """Return whether the plan may be applied: ask on the terminal, unless -y was given.

    `what` is the beginning of the question, before the hosts.
    """
    if args.yes:
        return True
    print(f"{what} {_in_waves(args, plan)}? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    if answer.strip().lower() in ("y", "yes"):
        return True
    print("nothing was changed", file=sys.stderr)
    return False


def ask_for_login(progress: ProgressLine, name: str, seconds: float) -> bool:
    """Return whether a person says on the terminal, within `seconds`, that a new login to this machine works."""
    deadline = time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))
    with progress.paused():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)  # ignores input from before the change
        print(
            f"\n{name}: the firewall is changed. The change is undone at {deadline}, in {seconds:g} s.\n"
            "To keep the change: log in to this machine again, from another machine.\n"
            "If that login works, type yes and press Enter. Any other answer undoes the\n"
            "change now.\n"
            "Does a new login work? [yes/N] ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        keep = bool(ready) and sys.stdin.readline().strip().lower() == "yes"
        if not keep:
            why = "" if ready else "\nno answer in time: "
            print(f"{why}the firewall change is undone", file=sys.stderr, flush=True)
    return keep


def rollout(args: argparse.Namespace) -> Rollout:
    return Rollout(args.canary, args.batch, args.max_fail)


def _in_waves(args: argparse.Namespace, plan: Plan) -> str:
    """Return the number of hosts, and the first wave if there are several."""
    hosts = f"{len(plan.hosts)} host{'' if len(plan.hosts) == 1 else 's'}"
    first, *later_waves = rollout(args).waves(plan.hosts)
    if not later_waves:
        return hosts
    batches = f"then {len(later_waves)} batches" if len(later_waves) > 1 else "then the others"
    return f"{hosts}: first {first[0]}{' …' if len(first) > 1 else ''}, {batches}"


class Undoes(NamedTuple):
    """A run that a plan takes back, and the hosts that it is taken back on."""

    run: str
    hosts: tuple[str, ...]


class ChangeRun(NamedTuple):
    """A run that changes hosts. `short`: its plan lacks some of the requested changes, so that it cannot succeed."""

    plan: Plan
    started: datetime
    short: bool = False
    undoes: Undoes | None = None


def carry_out(args: argparse.Namespace, s: Session, change_run: ChangeRun) -> tuple[str, Applied]:
    """Apply the plan, with a journal on this machine. Return the run's id and the results.

    The id is empty if there was nothing to record.
    """
    plan, started, short, undoes = change_run
    run = new_run_id(started)
    if not plan.changes and not undoes:
        return "", Applied(())
    undone, hosts = undoes or ("", ())
    journal = RunJournal(run)
    journal.start(args.command, args.inventory, plan, undoes=undone, asked=hosts)
    way = Way(s.hosts, s.transport, args.pool, s.progress, args.confirm_within, undone)
    if sys.stdin.isatty():
        way = replace(way, person=partial(ask_for_login, s.progress))
    try:
        applied = apply(plan, way, journal, rollout(args))
        journal.finish(1 if short or failed_hosts(applied.results) else 0)
    except (KeyboardInterrupt, PreflightError):  # PreflightError: the journal's disk is full
        s.progress.clear()
        if way.person:
            print(file=sys.stderr)  # the cursor may be behind a question
        print(
            "preflight: interrupted. Each host finishes its current change and starts no other. Unconfirmed firewall "
            f"changes are undone within {args.confirm_within:g} s. The journal of each host is "
            f"{JOURNAL}/{run}.jsonl.\nTo continue, run the same command again.\n"
            f"To undo: preflight rollback {run} {options(args.inventory, via=args.via)}",
            file=sys.stderr,
        )
        raise
    s.progress.clear()
    return run, applied
