"""Look at every host, show what has to change as a diff, ask, change it, and look again.

A change is made only where the host is still as it was seen; what somebody changed meanwhile is left alone. Firewall
changes take themselves back unless a new connection confirms them. Running it again finds nothing to do, and
`preflight rollback RUN` takes a run back.

Areas: ports, device addresses, firewall, environment; `configure-ports`, `configure-device-ips`, `configure-firewall`
and `configure-environment` are the same thing for one of them.
"""

import argparse
from collections.abc import Sequence

from preflight.cli.change_options import add_change_arguments
from preflight.cli.options import add_inventory_arguments
from preflight.model.change import Area


def add_arguments(parser: argparse.ArgumentParser, areas: Sequence[Area] = tuple(Area)) -> None:
    add_inventory_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="only show what would be changed")
    parser.add_argument("--exit-code", action="store_true", help="with --dry-run: end with 5 if something would change")
    if Area.PORTS in areas:
        parser.add_argument("--temporary", action="store_true", help="reserve the ports until the next boot only")
    add_change_arguments(parser)
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")


def run(args: argparse.Namespace) -> int:
    return run_areas(args, tuple(Area))


def run_areas(args: argparse.Namespace, areas: Sequence[Area]) -> int:
    """Run a `configure` command for these areas alone."""
    from preflight.cli.changes.configure import configure

    return configure(args, areas)
