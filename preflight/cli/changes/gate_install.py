"""`preflight gate install`: the gate's program and policy, brought to the hosts or removed."""

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from preflight.app.session import session
from preflight.cli.changes.change_output import UP_TO_DATE, RunResults, finish_run, say, show_plan
from preflight.cli.changes.questions import PENDING, ChangeRun, agreed, carry_out, refuse_what_cannot_be_asked, shown
from preflight.cli.options import again, host_options
from preflight.gate.install import installing, removing
from preflight.inventory import fold
from preflight.provision.apply import Way
from preflight.provision.host_run import CONFIRM_SECONDS


def run(args: argparse.Namespace) -> int:
    refuse_what_cannot_be_asked(args, dry_run=args.dry_run)
    args.confirm_within = CONFIRM_SECONDS  # no change of the gate needs a confirmation
    started = datetime.now(UTC)
    with session(host_options(args)) as s:
        way = Way(s.hosts, s.transport, args.pool, s.progress)
        planned = removing(way, force=args.force) if args.remove else installing(s.cluster, way, force=args.force)
        notes = tuple(_reasons({**planned.kept_off, **planned.kept_front}))
        if args.output == "console":
            settled = "no host has the gate" if args.remove else UP_TO_DATE
            shown(show_plan, s, planned.plan, notes, "nothing to change" if notes else settled)
        if args.dry_run:
            say(s, "nothing was changed (--dry-run)", f"next: {again(args)}")
            return 1 if planned.kept_off else 0
        if planned.plan.changes and not agreed(args, planned.plan):
            return PENDING
        is_short = bool(planned.kept_off)
        run_id, applied = carry_out(args, s, ChangeRun(planned.plan, started, is_short))
        return finish_run(args, s, RunResults(run_id, applied.results, notes, applied.at_work, is_short))


def _reasons(kept: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence for each reason: "node[03-04]: …"."""
    for why in dict.fromkeys(kept.values()):
        yield f"{fold(name for name, reason in kept.items() if reason == why)}: {why}"
