"""`preflight check`: usage of the command, and its report."""

import argparse
from datetime import UTC, datetime

from preflight.app.check import check_hosts, check_kinds, check_saved
from preflight.app.end import EndedRun
from preflight.app.options import CheckOptions, refuse_partial
from preflight.cli.options import run_options
from preflight.cli.output import present
from preflight.cli.report_options import refuse_unwritable
from preflight.model.errors import UsageError


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    _refuse_partial(args)
    _refuse_contradictions(args)
    return present(args, _check(args, run_options(CheckOptions, args)))


def _check(args: argparse.Namespace, options: CheckOptions) -> EndedRun:
    if args.source:
        from preflight.app.saved.load_saved import load_saved  # few runs read a file, and it takes a while to load

        started = datetime.now(UTC)
        return check_saved(options, load_saved(args.source, args.inventory, args.limit), args.source, started)
    return check_kinds(options, args.also) if args.also else check_hosts(options)


def _refuse_partial(args: argparse.Namespace) -> None:
    """Raise UsageError if `--publish` would present a partial check as a whole one."""
    partial = {
        "--from": args.source,
        "--only": args.only,
        "--skip": args.skip,
        "--basic": args.basic,
        "--no-ping": args.no_ping,
        "--ignore": args.ignore,
    }
    if args.publish:
        refuse_partial(partial, "a look at everything, as the inventory has it")


def _refuse_contradictions(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together."""
    if args.source and args.buddies:
        raise UsageError("--buddies probes hosts, and --from contacts nobody; leave one of them out")
    if args.source and args.basic:
        raise UsageError("--basic says what hosts are asked, and --from contacts nobody; leave one of them out")
    if args.source and args.also:
        raise UsageError("--from judges facts by one inventory; leave --also out")
    if args.buddies and not args.limit:
        raise UsageError("--buddies auto tests the hosts of --limit with partners; say which with --limit HOSTS")
