"""Test the nodes of a Slurm job before the job starts, and report the broken nodes.

  preflight gate controller -i hosts.toml --nodes 'node[01-04]'
  preflight gate controller -i hosts.toml --key KEY --authorize DIR

Slurm runs this command with PrologSlurmctld=/usr/local/sbin/preflight-gate, which does the rest.
With --nodes, the command tests idle nodes and prints the result. With --authorize, it writes a file
that only allows KEY to start the probe. No node is changed.

Nodes that are not in the inventory, and nodes without a running agent, count as unknown, never as
broken.
Exit codes: 0 no node is broken, or no single node is the culprit, 1 nodes are broken, 3 the state
is unknown.
"""

import argparse
from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY

_LEAST = 10  # seconds; importing torch and exiting take a few of them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i",
        "--inventory",
        type=Path,
        default=DEFAULT_INVENTORY,
        metavar="FILE",
        help="inventory (default: hosts.toml)",
    )
    parser.add_argument(
        "--nodes", metavar="LIST", help="nodes to test, in Slurm notation (default: SLURM_JOB_NODELIST)"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=60,
        metavar="N",
        help="time limit in seconds for the whole test (default: 60)",
    )
    parser.add_argument("--key", metavar="FILE", help="private key for ssh (default: the key in the inventory)")
    parser.add_argument(
        "--authorize",
        type=Path,
        metavar="DIR",
        help="folder for the files that authorize the key in --key; no node is tested",
    )


def _seconds(text: str) -> int:
    if not text.isdecimal() or not _LEAST <= int(text) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {_LEAST} to 3600")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import gate_controller

    return gate_controller.run(args)
