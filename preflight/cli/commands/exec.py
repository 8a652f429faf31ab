"""Probe the nodes of a job, leave the bad ones out, and run a command on the good ones, with the right ranks.

  salloc -N 18 --exclusive
  preflight exec --nodes 16 -- torchrun train.py --epochs 10  # 16 good ones
  preflight exec --quick --budget 60s -- torchrun train.py    # all good ones
  preflight exec --per-device -- python train.py              # one a device
  preflight exec --via mpi -i hosts.toml --nodes 4 -- bash job.sh

The command is started once on each node, by srun or mpirun, with all that torchrun and others are to know in its
environment, so that no rank, address or number of nodes stands on its command line. Its output, and its exit code, are
those of preflight exec; whatever preflight has to say goes to stderr. It takes the devices for granted: nodes of an
allocation are the job's own. Who is left out, and what is set: docs/exec.md.
"""

import argparse

from preflight.app.options import DEFAULT_INVENTORY
from preflight.cli.options import add_inventory_arguments, devices, product_name, read_inventory
from preflight.cli.probe_options import add_request_arguments
from preflight.cli.report_options import ReportOutput, add_save_argument, refuse_unwritable
from preflight.model.cluster import Product
from preflight.model.errors import UsageError
from preflight.model.gate import Unknown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.add_argument("--nodes", type=_number, metavar="N", help="run on N good nodes (default: on all good ones)")
    parser.add_argument(
        "--via",
        choices=("slurm", "mpi", "ssh"),
        metavar="slurm|mpi",
        help="what reaches the nodes and starts the command (default: the inventory's, in a job of Slurm slurm)",
    )
    parser.add_argument(
        "--unknown",
        choices=[*map(str, Unknown)],
        default=str(Unknown.CLOSED),
        help="where nobody can say whether a node is good: closed, it is left out, or nothing is run (the default); "
        "open, it is taken for good",
    )
    parser.add_argument("--per-device", action="store_true", help="start the command once a device, not once a node")
    parser.add_argument(
        "--devices", type=devices, metavar="LIST", help="of every node only these, such as 0-3 (default: all)"
    )
    parser.add_argument(
        "--product",
        type=product_name,
        choices=[*map(str, Product)],
        default="",
        help="of the nodes, without an inventory",
    )
    parser.add_argument("--master-port", type=int, metavar="N", help="default: the inventory's, else 29500")
    parser.add_argument("--no-rank-table", action="store_true", help="on NPUs: write no rank table on the nodes")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="one more variable, or ours otherwise"
    )
    add_request_arguments(parser)
    add_save_argument(parser)
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what is run, as it is")
    parser.set_defaults(idle=True, fail_on="fail", outputs=[ReportOutput("brief")], all=False)


def _number(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of nodes")
    return int(text)


def run(args: argparse.Namespace) -> int:
    refuse_unwritable(args)
    args.program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not args.program or not args.program[0]:
        raise UsageError("say what is to be run: preflight exec -- torchrun train.py")
    if args.tool == "hccl-test":
        raise UsageError("HCCL Test goes by ssh, and exec by srun or mpirun; leave out --with")
    has_inventory = args.inventory is not DEFAULT_INVENTORY or args.inventory.exists()
    cluster = read_inventory(args.inventory) if has_inventory else None
    from preflight.cli.jobs.exec import start_job

    return start_job(args, cluster)
