"""Read the logs of a failed job: which rank, host or device failed first, why, and what to do.

  preflight diagnose job.log
  preflight diagnose logs/ -o json
  preflight diagnose node01/ascend/log node02/ascend/log
  preflight diagnose --fetch -i hosts.toml '/data/job7/*.log'

Reads files and folders: output of torch, torchrun, MindSpore and Slurm, NCCL and HCCL, CANN's plogs and kernel logs.
Contacts no host without --fetch. Give it the logs of one run. The first error comes first, then its consequences. A
rank is not the culprit because others name it. What is read, and how it is judged: docs/diagnose.md.

--fetch brings the logs of all hosts: CANN's, the kernel's since its start, and files by their paths on the hosts (in
quotes, so that this machine's shell does not expand them). It writes nothing on the hosts, and removes its copies here.
"""

import argparse

from preflight.cli.log_options import add_fetch_arguments
from preflight.cli.options import add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log",
        nargs="*",
        metavar="LOG",
        help="a file, or a folder of them; with --fetch: on the hosts, * and ? may stand",
    )
    add_fetch_arguments(parser)
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")
    add_inventory_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.jobs import diagnose

    return diagnose.run(args)
