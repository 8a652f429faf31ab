"""Show the changes that the hosts need, ask for confirmation, apply the changes, and verify the result.

  preflight configure --inventory hosts.toml
  preflight configure --dry-run                 # changes nothing
  preflight configure-ports --limit node03      # one area, one host

The areas are ports, device addresses, firewall and environment. For a single area, use
`configure-ports`, `configure-device-ips`, `configure-firewall` or `configure-environment`.

A host that has changed since preflight read it is left unchanged. A host undoes its firewall
changes if no new connection confirms them. A second run finds nothing to change. `preflight
rollback RUN` undoes a run.
"""

import argparse
from collections.abc import Sequence

from preflight.cli.change_options import add_change_arguments
from preflight.cli.option_texts import CHANGES, DRY_RUN_HELP
from preflight.cli.options import add_form_argument, add_inventory_arguments, option_group
from preflight.model.change import Area


def add_arguments(parser: argparse.ArgumentParser, areas: Sequence[Area] = tuple(Area)) -> None:
    add_inventory_arguments(parser)
    changes = option_group(parser, CHANGES)
    changes.add_argument("--dry-run", action="store_true", help=DRY_RUN_HELP)
    changes.add_argument(
        "--exit-code", action="store_true", help="with --dry-run: exit with code 5 if something would change"
    )
    if Area.PORTS in areas:
        changes.add_argument("--temporary", action="store_true", help="reserve the ports only until the next boot")
    add_change_arguments(parser)
    add_form_argument(parser)


def run(args: argparse.Namespace) -> int:
    return run_areas(args, tuple(Area))


def run_areas(args: argparse.Namespace, areas: Sequence[Area]) -> int:
    """Run a `configure` command for these areas alone."""
    from preflight.cli.changes.configure import configure

    return configure(args, areas)
