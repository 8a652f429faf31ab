"""Clear the failures that check and probe have published on hosts.

  preflight gate clear -i hosts.toml --limit node02
  preflight gate clear -i hosts.toml

After a published failure, the gate of that host stays closed until a newer run is published there,
or until the failure is cleared. Passed checks stay. The state of a cleared host is unknown until
the next `preflight check --publish`. Exit codes: 0 cleared, 1 a host was not changed.
"""

import argparse

from preflight.cli.options import add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import gate_clear

    return gate_clear.run(args)
