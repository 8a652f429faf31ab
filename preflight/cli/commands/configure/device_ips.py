"""Set the address, gateway and detect address of each device NIC, as the inventory plans them.

  preflight configure-device-ips --inventory hosts.toml
  preflight configure-device-ips --limit node03 --dry-run

This command is `preflight configure` for one area. It shows a diff, asks for confirmation, applies
the diff, and verifies the result.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.ADDRESSES,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
