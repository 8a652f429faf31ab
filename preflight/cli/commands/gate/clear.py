"""Clear the failures that check and probe have published on hosts.

  preflight gate clear -i hosts.toml --limit node02

A published failure closes its host until a newer run is published there, or until this. What passed stays. Whether the
host is healthy is then unknown until the next preflight check --publish. Exit codes: 0 cleared, 1 a host did not take
it.
"""

import argparse

from preflight.cli.options import add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import gate_clear

    return gate_clear.run(args)
