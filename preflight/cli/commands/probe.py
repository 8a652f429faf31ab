"""Run collectives over all devices, and report hung ranks, wrong values and slow links.

  preflight probe --inventory hosts.toml
  preflight probe --backend gloo --limit 'node[01-02]' --sizes 8,1M,64M
  preflight probe --quick --budget 60s
  preflight probe --scope host,rail      # each host and each rail alone
  preflight probe --with hccl-test       # if jobs have no torch
  salloc -N 4 --exclusive preflight probe --via slurm   # without ssh

The probe checks every value of every collective. It keeps the devices busy for seconds to minutes.
It runs only if you declare the hosts idle, with idle = true under [probe] in the inventory or with
--idle. Hosts with devices in use are always left out.
"""

import argparse
from datetime import UTC, datetime

from preflight.cli.option_texts import HOSTS, IDLE_HELP
from preflight.cli.options import (
    add_fail_on_argument,
    add_inventory_arguments,
    add_publish_argument,
    option_group,
    read_inventory,
)
from preflight.cli.probe_options import add_request_arguments
from preflight.cli.report_options import add_output_arguments, refuse_unwritable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser, via=False)
    add_request_arguments(parser)
    option_group(parser, HOSTS).add_argument(
        "--via",
        choices=("ssh", "slurm", "mpi", "pods"),
        help="connection to the hosts: ssh, srun in the current job (slurm), mpirun (mpi), or Kubernetes pods "
        "that connect to each other (default: from the inventory)",
    )
    option_group(parser, HOSTS).add_argument("--idle", action="store_true", help=IDLE_HELP)
    add_output_arguments(parser)
    add_fail_on_argument(parser)
    add_publish_argument(parser)


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    started, cluster = datetime.now(UTC), read_inventory(args.inventory)
    from preflight.cli.hosts.probe import probe_hosts

    return probe_hosts(args, cluster, started)
