"""Run collectives over all devices, compare every value, and name who did not arrive, sent wrong data, or is slow.

  preflight probe --inventory hosts.toml
  preflight probe --backend gloo --limit 'node[01-02]' --sizes 8,1M,64M
  preflight probe --quick --budget 60s
  preflight probe --scope host,rail      # each host, each rail by itself
  preflight probe --with hccl-test       # where jobs have no torch
  salloc -N 4 --exclusive preflight probe --via slurm    # by srun, without ssh

The probe keeps the devices busy for seconds to minutes, so it runs only where the operator has said that the hosts are
idle and theirs (idle = true under [probe], or --idle), and leaves out hosts whose devices are in use all the same.
"""

import argparse
from datetime import UTC, datetime

from preflight.cli.options import add_inventory_arguments, add_publish_argument, read_inventory
from preflight.cli.probe_options import add_request_arguments
from preflight.cli.report_options import add_output_arguments, refuse_unwritable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    add_request_arguments(parser)
    parser.add_argument(
        "--via",
        choices=("ssh", "slurm", "mpi", "pods"),
        help="how hosts are reached, instead of the inventory's: ssh, one srun in the job that this runs in, one "
        "mpirun, or the pods of a Kubernetes job by each other",
    )
    parser.add_argument("--idle", action="store_true", help="these hosts are mine and idle: the probe may use them")
    add_publish_argument(parser)
    parser.add_argument("--fail-on", choices=("warn", "fail"), default="fail", help="what makes exit code 1")
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    started, cluster = datetime.now(UTC), read_inventory(args.inventory)
    from preflight.cli.hosts.probe import probe_hosts

    return probe_hosts(args, cluster, started)
