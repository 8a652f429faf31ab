"""Bring the gate's program and policy to the hosts."""

import argparse

from preflight.model.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="what", metavar="slurm")
    actions.add_parser("slurm", help="the lines for slurm.conf; check one", module="preflight.gate.slurm_conf")


def run(args: argparse.Namespace) -> int:
    raise UsageError("gate install is being built")
