"""Find the rank, host or device that failed first in the logs of a failed job.

  preflight diagnose job.log
  preflight diagnose logs/ -o json
  preflight diagnose node01/ascend/log node02/ascend/log
  preflight diagnose --fetch -i hosts.toml '/data/job7/*.log'

The report shows the first error, its likely cause and the fix, then the consequences of the error.
Give the command the logs of one run. It reads the output of torch, torchrun, MindSpore, Slurm,
NCCL and HCCL, as well as CANN plogs and kernel logs. A rank does not count as the culprit only because other
ranks report it. docs/diagnose.md describes the formats and the rules.

Without --fetch, no host is contacted. With --fetch, the command collects logs from all hosts: the
plogs, the kernel log since the last boot, and the given paths. Quote these paths, so that the
local shell does not expand them. The command writes nothing on the hosts and deletes its local
copies.
"""

import argparse

from preflight.cli.log_options import LOG_HELP, add_fetch_arguments
from preflight.cli.options import add_form_argument, add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", nargs="*", metavar="LOG", help=LOG_HELP)
    add_fetch_arguments(parser)
    add_inventory_arguments(parser)
    add_form_argument(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.jobs import diagnose

    return diagnose.run(args)
