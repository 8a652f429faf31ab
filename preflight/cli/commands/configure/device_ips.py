"""Give every device NIC its address, gateway and detect address, as the inventory plans them.

Shows a diff, asks, applies, and looks again: `preflight configure` for this area alone.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.ADDRESSES,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
