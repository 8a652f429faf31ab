"""Prove the nodes of a Slurm job before anything runs on them, and tell who is broken. Touches nothing.

  preflight gate controller -i hosts.toml --nodes 'node[01-04]'
  preflight gate controller -i hosts.toml --key KEY --authorize DIR

Slurm runs it by PrologSlurmctld=/usr/local/sbin/preflight-gate, which does the rest; with --nodes it says what it would
find on idle nodes, with --authorize it writes what lets KEY start the probe and no more.

Nodes that the inventory does not know, or that give no agent, are unknown and never broken. Exit codes: 0 nobody is
broken (also: what fails is nobody's alone), 1 nodes are broken, 3 nobody knows.
"""

import argparse
from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY

_LEAST = 10  # seconds; importing torch and exiting take a few of them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i", "--inventory", type=Path, default=DEFAULT_INVENTORY, metavar="FILE", help="default: hosts.toml"
    )
    parser.add_argument("--nodes", metavar="LIST", help="as Slurm writes them; default: SLURM_JOB_NODELIST")
    parser.add_argument("--seconds", type=_seconds, default=60, metavar="N", help="for all of it (default: 60)")
    parser.add_argument("--key", metavar="FILE", help="the ssh key to go with, instead of the inventory's")
    parser.add_argument("--authorize", type=Path, metavar="DIR", help="write what lets the key of --key in, and end")


def _seconds(text: str) -> int:
    if not text.isdecimal() or not _LEAST <= int(text) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {_LEAST} to 3600")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import gate_controller

    return gate_controller.run(args)
