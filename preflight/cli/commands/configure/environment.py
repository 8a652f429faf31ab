"""Set the names in /etc/hosts, the limits and the HCCL profile that the inventory requests.

  preflight configure-environment --inventory hosts.toml
  preflight configure-environment --limit node03 --dry-run

The section [host_setup] of the inventory has these settings. A setting that is no longer in it is
removed from the hosts.

This is `preflight configure` for one area: it shows a diff, asks, applies it, and verifies the
result.
"""

import argparse

from preflight.cli.commands import configure
from preflight.model.change import Area

AREAS = (Area.ENVIRONMENT,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    configure.add_arguments(parser, AREAS)


def run(args: argparse.Namespace) -> int:
    return configure.run_areas(args, AREAS)
