"""Bring the gate to the hosts: its program, /usr/local/sbin/preflight-gate, and its policy, /etc/preflight/gate.json.

  preflight gate install -i hosts.toml
  preflight gate install -i hosts.toml --limit node01 --dry-run
  preflight gate install slurm           # the lines for slurm.conf, or its faults

A change like any other: shown, asked for, journaled on the hosts, and taken back by preflight rollback. Once it is
there, the gate answers from what preflight check --publish and preflight probe --publish find.
"""

import argparse

from preflight.cli.change_options import add_rollout_arguments
from preflight.cli.options import add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    add_rollout_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="only show what would be changed")
    parser.add_argument("--force", action="store_true", help="write over files that are there and not ours")
    parser.add_argument("--remove", action="store_true", help="take the gate from the hosts, whichever run brought it")
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")
    actions = parser.add_subparsers(dest="what", metavar="slurm")
    actions.add_parser("slurm", help="the lines for slurm.conf; check one", module="preflight.cli.commands.gate.slurm")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes import gate_install

    return gate_install.run(args)
