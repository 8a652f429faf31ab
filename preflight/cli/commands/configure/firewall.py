"""Open the firewall for the cluster, or switch it off, as the inventory says.

Shows a diff, asks, applies, and looks again: `preflight configure` for this area alone.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.FIREWALL,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
