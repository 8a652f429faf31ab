"""Options of commands that change hosts."""

import argparse

from preflight.app.options import ChangePermissions
from preflight.cli.option_texts import CHANGES
from preflight.cli.options import option_group
from preflight.provision.rollout import Batch

_SHORTEST, _LONGEST = 2.0, 600.0  # seconds for a confirmation


def add_rollout_arguments(parser: argparse.ArgumentParser) -> None:
    changes = option_group(parser, CHANGES)
    changes.add_argument("-y", "--yes", action="store_true", help="change hosts without asking")
    changes.add_argument(
        "--canary",
        type=_count,
        metavar="N",
        help="number of hosts to change first; all must succeed (default: 1 for 16 or more hosts, else 0)",
    )
    changes.add_argument(
        "--batch",
        type=_batch,
        default=Batch(),
        metavar="N",
        help="number of hosts to change at once after the canary hosts, such as 16 or 25%% (default: 100%%)",
    )
    changes.add_argument(
        "--max-fail",
        type=_count,
        default=0,
        metavar="N",
        help="do not start another batch if more than N hosts have failed (default: 0)",
    )


def add_change_arguments(parser: argparse.ArgumentParser) -> None:
    add_rollout_arguments(parser)
    option_group(parser, CHANGES).add_argument(
        "--confirm-within",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="seconds that a host waits for a new connection before it reverts its firewall changes (default: 30)",
    )
    add_permission_arguments(parser)


def add_permission_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that permit changes; they decide which changes the plan contains."""
    changes = option_group(parser, CHANGES)
    changes.add_argument(
        "--allow-disturbing", action="store_true", help="include changes that may disturb running programs"
    )
    changes.add_argument(
        "--force-busy",
        action="store_true",
        help="include changes to devices that a job uses; the job loses its connections",
    )


def _count(text: str) -> int:
    if not text.isdigit() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid number of hosts")
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
