"""Install the gate on the hosts: its program and its policy.

  preflight gate install -i hosts.toml
  preflight gate install -i hosts.toml --limit node01 --dry-run
  preflight gate install slurm           # lines for slurm.conf

The program is /usr/local/sbin/preflight-gate, and the policy is /etc/preflight/gate.json. The
command shows the changes, asks for confirmation, and writes a journal on the hosts. `preflight
rollback` undoes the changes. The gate then answers from the results of `preflight check --publish`
and `preflight probe --publish`.
"""

import argparse

from preflight.cli.change_options import add_rollout_arguments
from preflight.cli.option_texts import CHANGES, DRY_RUN_HELP
from preflight.cli.options import add_form_argument, add_inventory_arguments, option_group


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    add_rollout_arguments(parser)
    changes = option_group(parser, CHANGES)
    changes.add_argument("--dry-run", action="store_true", help=DRY_RUN_HELP)
    changes.add_argument("--force", action="store_true", help="overwrite files that do not belong to the gate")
    changes.add_argument("--remove", action="store_true", help="remove the gate from the hosts, whichever run added it")
    add_form_argument(parser)
    actions = parser.add_subparsers(dest="what", metavar="slurm")
    actions.add_parser(
        "slurm",
        help="print the lines for slurm.conf, or check a slurm.conf",
        module="preflight.cli.commands.gate.slurm",
    )


def run(args: argparse.Namespace) -> int:
    from preflight.cli.changes import gate_install

    return gate_install.run(args)
