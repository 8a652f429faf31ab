"""Open the firewall for the cluster, or switch it off, as the inventory requests.

  preflight configure-firewall --inventory hosts.toml
  preflight configure-firewall --canary 1 --confirm-within 60

This command is `preflight configure` for one area. It shows a diff, asks for confirmation, applies
the diff, and verifies the result.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.FIREWALL,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
