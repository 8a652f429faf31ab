"""Look at every host in one round trip, compare hosts with each other, ping between devices, and run collectives
over all devices where that disturbs nobody. Names what is wrong and the next command to run.

The probe starts only when everything before it has passed: on a cluster that is already known to be broken it would
take minutes to show symptoms of causes that stand above it. `preflight probe` runs it regardless.
"""

import argparse
from pathlib import Path

from preflight.app.options import refuse_partial
from preflight.cli.options import add_basic_argument, add_inventory_arguments, add_publish_argument, read_inventory
from preflight.cli.report_options import add_output_arguments, refuse_unwritable
from preflight.model.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a second inventory, of hosts of another kind: looked at by its own rules, in the same report",
    )
    add_basic_argument(parser)
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="judge saved facts, a capture, or a support bundle; contact nobody",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="ID", help="only these checks, areas or prefixes"
    )
    parser.add_argument("--skip", action="append", default=[], metavar="ID", help="leave these out")
    parser.add_argument("--ignore", action="append", default=[], metavar="ID", help="show as a warning, recorded")
    parser.add_argument("--no-ping", action="store_true", help="no pings between devices")
    parser.add_argument("--mesh", action="store_true", help="ping every host on the rail, not only the neighbours")
    parser.add_argument(
        "--cross-rail", action="store_true", help="ping devices of other rails, too; with --mesh all of all hosts"
    )
    parser.add_argument("--ping-size", type=_ping_size, metavar="BYTES", help="of a ping's data: 64, 1500, 4000 …")
    parser.add_argument("--no-probe", action="store_true", help="no collectives")
    parser.add_argument("--idle", action="store_true", help="these hosts are mine and idle: the probe may use them")
    parser.add_argument(
        "--buddies",
        choices=("auto",),
        help="with --limit: probe the limited hosts together with known-good idle partners from the rest",
    )
    add_publish_argument(parser)
    parser.add_argument("--fail-on", choices=("warn", "fail"), default="fail", help="what makes exit code 1")
    add_output_arguments(parser)


def _ping_size(text: str) -> int:
    from preflight.facts.pings.plan import LARGEST

    if not (text.isdecimal() and len(text) < 6 and 0 < int(text) <= LARGEST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes from 1 to {LARGEST}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    _refuse_partial(args)
    _refuse_contradictions(args)
    cluster = None if args.source or args.also else read_inventory(args.inventory)
    from preflight.cli.hosts.check import check

    return check(args, cluster)


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
