"""Set the names in /etc/hosts, the limits and the HCCL profile that the inventory requests.

  preflight configure-environment --inventory hosts.toml
  preflight configure-environment --limit node03 --dry-run

The inventory has these settings under [host_setup]. If a setting is no longer there, it is removed
from the hosts.

This command is `preflight configure` for one area. It shows a diff, asks for confirmation, applies
the diff, and verifies the result.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.ENVIRONMENT,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
