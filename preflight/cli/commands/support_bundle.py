"""Put what a run saw and found into one file that can be given away: facts, report, inventory, journals, logs.

  preflight support-bundle                           # of the newest run
  preflight support-bundle RUN --out /tmp/case7.zip
  preflight support-bundle --log job.log --log logs/
  preflight support-bundle -i hosts.toml --fetch --log '/data/job7/*.log'   # logs of the hosts, as diagnose has them

The file is its owner's alone. What looks like a password, key or token is taken out, serial numbers and machine ids are
other ones, and the way to the hosts is not in it. Names and addresses are: read it before you give it away. Hosts are
contacted only with --fetch. preflight check, facts and diff read the file: check --from FILE.
"""

import argparse
from pathlib import Path

from preflight.cli.log_options import add_fetch_arguments
from preflight.cli.options import RUN_HELP, add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", nargs="?", default="last", help=f"{RUN_HELP} (default: last)")
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="PLACE", help="a folder, or the file to write (default: here)"
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument(
        "--log",
        action="append",
        default=[],
        metavar="LOG",
        help="a file of logs, or a folder of them; with --fetch: on the hosts, * and ? may stand",
    )
    add_fetch_arguments(parser)
    add_inventory_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.history import support_bundle

    return support_bundle.run(args)
