"""`preflight plan`: changes that hosts need, shown and saved."""

import argparse
import shlex
from datetime import UTC, datetime
from pathlib import Path

from preflight.app.files import refuse_place, write_whole
from preflight.app.planning import NO_HOST, doable, judge, nothing, only_look
from preflight.app.session import session
from preflight.bounded_file import read_bounded
from preflight.cli.change_options import change_permissions
from preflight.cli.changes.change_output import say, show_plan
from preflight.cli.changes.configure import dry_exit
from preflight.cli.changes.next_command import look
from preflight.cli.changes.questions import shown
from preflight.cli.options import again, host_options
from preflight.facts.documents.facts_document import load_file
from preflight.model.change import Area
from preflight.model.errors import UsageError
from preflight.provision.document import LARGEST, SavedPlan, dump, is_plan
from preflight.report.build import utc


def run(args: argparse.Namespace) -> int:
    areas = tuple(args.area or Area)
    if args.out:
        _refuse_to_overwrite(args.out)
        refuse_place(args.out, "--out")
    with session(host_options(args)) as s:
        look_result = judge(s, load_file(args.source), areas) if args.source else only_look(s, areas)
        plan, notes = doable(s, look_result, change_permissions(args))
        shown(show_plan, s, plan, notes, nothing(look_result))
        if args.out:
            inventory = str(args.inventory.absolute())
            saved = dump(SavedPlan(utc(datetime.now(UTC)), s.cluster.name, inventory, plan, notes))
            write_whole(args.out, saved, "the plan", 0o600)  # it contains the contents of host files
        done = f"plan saved in {args.out}; no host was changed" if args.out else "no host was changed"
        command = f"preflight apply {shlex.quote(str(args.out))}" if args.out else f"{again(args)} --out plan.json"
        if not plan.changes and not notes:
            command = look(args)
        elif nothing(look_result) == NO_HOST:
            command = "preflight explain HST101"
        say(s, done, f"next: {command}")
        return dry_exit(args, look_result, plan)


def _refuse_to_overwrite(path: Path) -> None:
    """Raise UsageError if `path` holds something other than a plan, which would be lost."""
    try:
        content = read_bounded(path, LARGEST) if path.is_file() else b""
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}. Choose another file for the plan.") from None
    free = is_plan(content) or not content if path.is_file() else not path.exists()
    if not free:
        raise UsageError(f"{path} exists and is not a plan. Choose another file for the plan.")
