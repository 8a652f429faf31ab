"""Pack the facts, report, inventory, journals and logs of a run into one redacted file.

  preflight support-bundle                           # newest run
  preflight support-bundle RUN --out /tmp/case7.zip
  preflight support-bundle --log job.log --log logs/
  preflight support-bundle -i hosts.toml --fetch --log '/data/job7/*.log'

Only the owner can read the file. Text that may be a password, key or token is removed. Serial
numbers and machine ids are replaced, and connection settings are left out. Names and addresses
stay, so read the file before you share it.

Hosts are contacted only with --fetch. You can pass the file to "preflight check --from",
"preflight facts --from" and "preflight diff".
"""

import argparse
from pathlib import Path

from preflight.cli.log_options import LOG_HELP, add_fetch_arguments
from preflight.cli.option_texts import LOGS, OUTPUT, PLACE_HELP, RUN_HELP
from preflight.cli.options import add_inventory_arguments, option_group


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="RUN", nargs="?", default="last", help=f"{RUN_HELP} (default: last)")
    option_group(parser, LOGS).add_argument(
        "--log", action="append", default=[], metavar="LOG", help=f"{LOG_HELP}; repeatable"
    )
    add_fetch_arguments(parser)
    add_inventory_arguments(parser)
    output = option_group(parser, OUTPUT)
    output.add_argument("--out", type=Path, default=Path(), metavar="PLACE", help=PLACE_HELP)
    output.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.history import support_bundle

    return support_bundle.run(args)
