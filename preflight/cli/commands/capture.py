"""Save the output of the vendors' tools on all hosts in one file, for later versions of preflight.

  preflight capture --inventory hosts.toml
  preflight capture --inventory hosts.toml --anonymous --out /tmp/site.json
  preflight check --from preflight-capture-….json

Nothing is changed or written on the hosts. Only the owner can read the file. Serial numbers, and
text that may be a password, key or token, are removed.

With --anonymous machines, switches, accounts, domains and addresses get other names. The same
name is replaced in the same way everywhere. Public domains, such as nvidia.com and github.com,
stay. If a known name would remain, no file is written.

Read the file before you share it. It has other output of tools and files, and names of folders.
"""

import argparse
from pathlib import Path

from preflight.cli.option_texts import HOSTS, LOCAL_HELP, OUTPUT, PLACE_HELP
from preflight.cli.options import add_inventory_arguments, option_group


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    option_group(parser, HOSTS).add_argument("--local", action="store_true", help=LOCAL_HELP)
    output = option_group(parser, OUTPUT)
    output.add_argument("--out", type=Path, default=Path(), metavar="PLACE", help=PLACE_HELP)
    output.add_argument("--anonymous", action="store_true", help="replace host names and addresses by pseudonyms")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import capture

    return capture.run(args)
