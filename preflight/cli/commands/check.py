"""Check all hosts in the inventory, and print each problem with the command that fixes it.

  preflight check --inventory hosts.toml
  preflight check --limit 'node[01-04]' --no-probe
  preflight check --hosts 'node[01-04]'  # without an inventory
  preflight check --only NPU --skip NPU107 -o json=report.json
  preflight check --from facts.json      # offline, from saved facts

preflight collects the facts of each host in one round trip. It then compares the hosts with each
other, devices ping each other, and a probe runs collectives over all devices. The probe starts
only on idle hosts. It leaves out hosts and devices that have already failed a check. One run thus
reports all independent faults. The command `preflight probe` does not depend on other checks.

With --hosts, there is no inventory. preflight detects the product, and leaves out collectives and
all checks that compare hosts with an inventory. The report lists what was not checked.
"""

import argparse
from pathlib import Path

from preflight.app.options import refuse_partial
from preflight.cli.option_texts import HOSTS, IDLE_HELP, SELECTION
from preflight.cli.options import (
    add_basic_argument,
    add_fail_on_argument,
    add_inventory_arguments,
    add_publish_argument,
    option_group,
    read_inventory,
)
from preflight.cli.probe_options import add_budget_argument
from preflight.cli.report_options import add_output_arguments, refuse_unwritable
from preflight.model.errors import UsageError
from preflight.model.ping import LARGEST as LARGEST_PING


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser, names=True)
    option_group(parser, HOSTS).add_argument(
        "--also",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="additional inventory, for hosts of a different kind, with its own rules, in the same report; repeatable",
    )
    _add_selection_arguments(parser)
    _add_ping_arguments(parser)
    _add_probe_arguments(parser)
    add_output_arguments(parser)
    add_fail_on_argument(parser)
    add_publish_argument(parser)


def _add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    add_basic_argument(parser)
    selection = option_group(parser, SELECTION)
    selection.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="saved facts, capture or support bundle to check; no host is contacted",
    )
    for option, purpose in (
        ("--only", "run only these checks"),
        ("--skip", "do not run these checks"),
        ("--ignore", "count failures of these checks as warnings, with a note in the report"),
    ):
        selection.add_argument(
            option,
            action="append",
            default=[],
            metavar="ID",
            help=f"{purpose} (id, prefix of ids, or area); repeatable",
        )


def _add_ping_arguments(parser: argparse.ArgumentParser) -> None:
    pings = parser.add_argument_group("pings")
    pings.add_argument("--no-ping", action="store_true", help="do not send pings between devices")
    pings.add_argument("--mesh", action="store_true", help="ping all hosts on a rail (default: only the neighbours)")
    pings.add_argument(
        "--cross-rail",
        action="store_true",
        help="also ping devices on other rails (with --mesh: those of all hosts)",
    )
    pings.add_argument(
        "--ping-size", type=_ping_size, metavar="BYTES", help="payload of a ping in bytes, such as 64, 1500 or 4000"
    )


def _add_probe_arguments(parser: argparse.ArgumentParser) -> None:
    probe = parser.add_argument_group("probe")
    probe.add_argument("--no-probe", action="store_true", help="do not run collectives")
    probe.add_argument("--idle", action="store_true", help=IDLE_HELP)
    add_budget_argument(probe)
    probe.add_argument(
        "--buddies",
        choices=("auto",),
        help="with --limit: probe these hosts together with healthy idle hosts in the inventory",
    )


def _ping_size(text: str) -> int:
    if not (text.isdecimal() and len(text) < 6 and 0 < int(text) <= LARGEST_PING):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes from 1 to {LARGEST_PING}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    _refuse_partial(args)
    _refuse_contradictions(args)
    is_read_later = args.source or args.also or args.hosts is not None
    cluster = None if is_read_later else read_inventory(args.inventory)
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
        refuse_partial(partial, "a complete check")


def _refuse_contradictions(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together."""
    if args.hosts is not None:
        _refuse_with_names(args)
    if args.source and args.buddies:
        raise UsageError("--from cannot be combined with --buddies, because --from contacts no host")
    if args.source and args.basic:
        raise UsageError("--from cannot be combined with --basic, because --from contacts no host")
    if args.source and args.also:
        raise UsageError("--from cannot be combined with --also, because --from uses one inventory")
    if args.buddies and not args.limit:
        raise UsageError("--buddies needs --limit HOSTS, the hosts to test with partners")


def _refuse_with_names(args: argparse.Namespace) -> None:
    """Raise UsageError for options that need an inventory, or are not needed with --hosts."""
    needs_inventory = {
        "--also": args.also,
        "--from": args.source,
        "--limit": args.limit,
        "--buddies": args.buddies,
        "--idle": args.idle,
        "--publish": args.publish,
        "--ask-sudo-password": args.ask_sudo_password,
    }
    if option := next((option for option, value in needs_inventory.items() if value), ""):
        raise UsageError(
            f"--hosts cannot be combined with {option}, which needs an inventory: preflight init writes one"
        )
