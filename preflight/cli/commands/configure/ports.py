"""Reserve the HCCL and job ports on every host, united with what is reserved there already, now and at boot.

Shows a diff, asks, applies, and looks again: `preflight configure` for this area alone.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.PORTS,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
