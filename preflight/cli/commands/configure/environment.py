"""Write the cluster's names into /etc/hosts, limits and a profile for HCCL jobs, as [host_setup] of the inventory asks;
what it does not ask for any more is taken away again.

Shows a diff, asks, applies, and looks again: `preflight configure` for this area alone.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.ENVIRONMENT,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
