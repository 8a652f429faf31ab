"""Probe the nodes of a job, leave out the bad nodes, and run a command on the good nodes.

  salloc -N 18 --exclusive
  preflight exec --nodes 16 -- torchrun train.py             # 16 good nodes
  preflight exec --quick --budget 60s -- torchrun train.py   # all good nodes
  preflight exec --per-device -- python train.py             # one per device
  preflight exec --via mpi -i hosts.toml --nodes 4 -- bash job.sh

srun or mpirun starts the command once on each node. The environment of the command has all
variables that torchrun and other launchers need. The command line therefore needs no rank, address
or number of nodes.

The output and the exit code are those of the command. preflight writes its messages to stderr. Nodes
in an allocation count as idle, because they belong to the job. See docs/exec.md for the variables,
and for the reasons to leave a node out.
"""

import argparse

from preflight.app.options import DEFAULT_INVENTORY
from preflight.cli.option_texts import ENV_HELP, MASTER_PORT_HELP
from preflight.cli.options import add_inventory_arguments, devices, product_name, read_inventory
from preflight.cli.probe_options import add_request_arguments
from preflight.cli.report_options import ReportOutput, add_save_argument, refuse_unwritable
from preflight.model.cluster import Product
from preflight.model.errors import UsageError
from preflight.model.gate import Unknown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser, via=False)
    _add_node_arguments(parser)
    _add_command_arguments(parser)
    add_request_arguments(parser)
    add_save_argument(parser)
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="command to run, with its arguments"
    )
    parser.set_defaults(idle=True, fail_on="fail", outputs=[ReportOutput("brief")], all=False)


def _add_node_arguments(parser: argparse.ArgumentParser) -> None:
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument("--nodes", type=_number, metavar="N", help="number of good nodes to run on (default: all)")
    nodes.add_argument(
        "--via",
        choices=("slurm", "mpi", "ssh"),
        metavar="slurm|mpi",
        help="launcher for the command and the probe (default: slurm in a Slurm job, else from the inventory)",
    )
    nodes.add_argument(
        "--unknown",
        choices=[*map(str, Unknown)],
        default=str(Unknown.CLOSED),
        help="policy for nodes with an unknown result: closed leaves them out or runs nothing, "
        "open runs on them (default: closed)",
    )
    nodes.add_argument(
        "--product",
        type=product_name,
        choices=[*map(str, Product)],
        default="",
        help="product of the nodes, if there is no inventory",
    )


def _add_command_arguments(parser: argparse.ArgumentParser) -> None:
    command = parser.add_argument_group("how to run the command")
    command.add_argument(
        "--per-device", action="store_true", help="start one process per device (default: one per node)"
    )
    command.add_argument(
        "--devices", type=devices, metavar="LIST", help="devices to use on each node, such as 0-3 (default: all)"
    )
    command.add_argument("--master-port", type=int, metavar="N", help=MASTER_PORT_HELP)
    command.add_argument("--no-rank-table", action="store_true", help="on NPUs: do not write a rank table on the nodes")
    command.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help=ENV_HELP)


def _number(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes from 1 to 65536")
    return int(text)


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    args.program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not args.program or not args.program[0]:
        raise UsageError("no command to run. Example: preflight exec -- torchrun train.py")
    if args.tool == "hccl-test":
        raise UsageError("HCCL Test runs over ssh, but exec uses srun or mpirun. Remove --with.")
    has_inventory = args.inventory is not DEFAULT_INVENTORY or args.inventory.exists()
    cluster = read_inventory(args.inventory) if has_inventory else None
    from preflight.cli.jobs.exec import start_job

    return start_job(args, cluster)
