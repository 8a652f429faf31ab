"""Bring the gate to the hosts: its program, /usr/local/sbin/preflight-gate, and its policy, /etc/preflight/gate.json.

  preflight gate install -i hosts.toml
  preflight gate install -i hosts.toml --limit node01 --dry-run
  preflight gate install slurm           # the lines for slurm.conf, or its faults

A change like any other: shown, asked for, journaled on the hosts, and taken back by preflight rollback. Once it is
there, the gate answers from what preflight check --publish and preflight probe --publish find.
"""

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from preflight.app.session import add_inventory_arguments, again, session
from preflight.cli.changes.questions import (
    PENDING,
    add_rollout_arguments,
    agreed,
    carry_out,
    refuse_what_cannot_be_asked,
    shown,
)
from preflight.provision.host_run import CONFIRM_SECONDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    add_rollout_arguments(parser)
    parser.set_defaults(confirm_within=CONFIRM_SECONDS)  # no change of the gate needs a confirmation
    parser.add_argument("--dry-run", action="store_true", help="only show what would be changed")
    parser.add_argument("--force", action="store_true", help="write over files that are there and not ours")
    parser.add_argument("--remove", action="store_true", help="take the gate from the hosts, whichever run brought it")
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")
    actions = parser.add_subparsers(dest="what", metavar="slurm")
    actions.add_parser("slurm", help="the lines for slurm.conf; check one", module="preflight.cli.commands.gate.slurm")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes.change_output import finish_run, say, show_plan
    from preflight.gate.install import installing, removing
    from preflight.provision.apply import Way

    refuse_what_cannot_be_asked(args, dry_run=args.dry_run)
    started = datetime.now(UTC)
    with session(args) as s:
        way = Way(s.hosts, s.transport, args.pool, s.progress)
        planned = removing(way, force=args.force) if args.remove else installing(s.cluster, way, force=args.force)
        notes = tuple(_told(planned.kept_off))
        if args.output == "console":
            settled = "no host has it" if args.remove else "every host has it already"
            shown(show_plan, s, planned.plan, notes, "nothing to change" if notes else settled)
        if args.dry_run:
            say(s, "nothing was changed (--dry-run)", f"next: {again(args)}")
            return 1 if notes else 0
        if planned.plan.changes and not agreed(args, planned.plan):
            return PENDING
        run_id, applied = carry_out(args, s, planned.plan, started, short=bool(notes))
        return finish_run(args, s, run_id, applied.results, notes, short=bool(notes), at_work=applied.at_work)


def _told(kept_off: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence for each reason: "node[03-04]: …"."""
    from preflight.inventory import fold

    for why in dict.fromkeys(kept_off.values()):
        yield f"{fold(name for name, reason in kept_off.items() if reason == why)}: {why}"
