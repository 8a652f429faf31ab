"""Reserve the HCCL and job ports on all hosts, now and after every boot.

  preflight configure-ports --inventory hosts.toml
  preflight configure-ports --temporary      # until the next boot

Ports that are already reserved stay reserved.

This command is `preflight configure` for one area. It shows a diff, asks for confirmation, applies
the diff, and verifies the result.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.PORTS,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
