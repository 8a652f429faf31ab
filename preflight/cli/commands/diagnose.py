"""Find the rank, host or device that failed first in the logs of a failed job.

  preflight diagnose job.log
  preflight diagnose logs/ -o json
  preflight diagnose node01/ascend/log node02/ascend/log
  preflight diagnose --fetch -i hosts.toml '/data/job7/*.log'

The report has the first error, its likely cause and the fix, then its consequences. Give the
command the logs of one run. It reads output of torch, torchrun, MindSpore, Slurm, NCCL and HCCL,
plogs of CANN, and kernel logs. A rank is not the culprit only because other ranks report it.
docs/diagnose.md describes the formats and the rules.

Without --fetch no host is contacted. With --fetch the command collects logs from all hosts: the
plogs, the kernel log since the last boot, and the given paths on the hosts. Quote these paths to
keep them from the local shell. It writes nothing on the hosts, and deletes its local copies.
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
