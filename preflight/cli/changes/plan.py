"""Look at every host and show what would be changed, as a diff; save it for `preflight apply`.

Nothing is changed. A plan is limited to areas with --area, and can be made from facts that were saved before.
"""

import argparse
import shlex
from datetime import UTC, datetime
from pathlib import Path

from preflight.app.session import add_inventory_arguments, again, refuse_place, session, write_whole
from preflight.bounded_file import read_bounded
from preflight.cli.changes.next_command import look
from preflight.cli.changes.questions import add_permission_arguments, shown
from preflight.model.change import Area
from preflight.model.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="save the plan here, for preflight apply FILE; an older plan there is written over, nothing else",
    )
    parser.add_argument("--area", action="append", type=Area, choices=tuple(Area), help="only this area (repeatable)")
    parser.add_argument("--from", dest="source", type=Path, metavar="FACTS", help="plan from saved facts, offline")
    parser.add_argument("--exit-code", action="store_true", help="end with 5 if something would change")
    add_permission_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.app.planning import NOBODY, doable, judge, nothing, only_look
    from preflight.cli.changes.change_output import say, show_plan
    from preflight.cli.changes.configure import dry_exit
    from preflight.facts.documents.facts_document import load_file
    from preflight.provision.document import SavedPlan, dump
    from preflight.report.build import utc

    areas = tuple(args.area or Area)
    if args.out:
        _refuse_to_overwrite(args.out)
        refuse_place(args.out, "--out")
    with session(args) as s:
        look_result = judge(s, load_file(args.source), areas) if args.source else only_look(s, areas, args)
        plan, notes = doable(s, look_result, args)
        shown(show_plan, s, plan, notes, nothing(look_result))
        if args.out:
            inventory = str(args.inventory.absolute())
            saved = dump(SavedPlan(utc(datetime.now(UTC)), s.cluster.name, inventory, plan, notes))
            write_whole(args.out, saved, "the plan", 0o600)  # it contains the contents of host files
        done = f"nothing was changed; the plan is in {args.out}" if args.out else "nothing was changed"
        command = f"preflight apply {shlex.quote(str(args.out))}" if args.out else f"{again(args)} --out plan.json"
        if not plan.changes and not notes:
            command = look(args)
        elif nothing(look_result) == NOBODY:
            command = "preflight explain HST101"
        say(s, done, f"next: {command}")
        return dry_exit(args, look_result, plan)


def _refuse_to_overwrite(path: Path) -> None:
    """Raise UsageError if `path` holds something other than a plan, which would be lost."""
    from preflight.provision.document import LARGEST, is_plan

    try:
        content = read_bounded(path, LARGEST) if path.is_file() else b""
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name another file for the plan") from None
    free = is_plan(content) or not content if path.is_file() else not path.exists()
    if not free:
        raise UsageError(f"{path} is there already and is no plan; name another file for the plan")
