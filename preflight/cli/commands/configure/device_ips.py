"""Set the address, gateway and detect address of each device NIC, as the inventory plans them.

  preflight configure-device-ips --inventory hosts.toml
  preflight configure-device-ips --limit node03 --dry-run

This is `preflight configure` for one area: it shows a diff, asks, applies it, and verifies the
result.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.ADDRESSES,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
