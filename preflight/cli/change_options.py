"""Options of commands that change hosts."""

import argparse

from preflight.app.options import ChangePermissions
from preflight.provision.rollout import Batch

_SHORTEST, _LONGEST = 2.0, 600.0  # seconds for a confirmation


def add_rollout_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--canary", type=_count, metavar="N", help="hosts that go first and have to end well (default: 1 of 16 or more)"
    )
    parser.add_argument(
        "--batch", type=_batch, default=Batch(), metavar="N", help="then so many at a time: 25%% or 16 (default: 100%%)"
    )
    parser.add_argument(
        "--max-fail",
        type=_count,
        default=0,
        metavar="N",
        help="begin no other batch once more than N hosts have failed (default: 0)",
    )


def add_change_arguments(parser: argparse.ArgumentParser) -> None:
    add_rollout_arguments(parser)
    parser.add_argument(
        "--confirm-within",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long a host waits for a new connection before it takes its firewall changes back (default: 30)",
    )
    add_permission_arguments(parser)


def add_permission_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that permit changes; they decide which changes the plan contains."""
    parser.add_argument(
        "--allow-disturbing", action="store_true", help="also change what may disturb something that runs on a host now"
    )
    parser.add_argument(
        "--force-busy", action="store_true", help="also change devices that a job uses: it will lose its connections"
    )


def _count(text: str) -> int:
    if not text.isdigit() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hosts")
    return int(text)


def _batch(text: str) -> Batch:
    try:
        return Batch.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    if not text.isdigit() or not _SHORTEST <= int(text) <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from {_SHORTEST:g} to {_LONGEST:g}")
    return float(text)


def change_permissions(args: argparse.Namespace) -> ChangePermissions:
    return ChangePermissions(args.allow_disturbing, args.force_busy)
