"""Save the output of the vendor tools on all hosts in one file, for later versions of preflight.

  preflight capture --inventory hosts.toml
  preflight capture --inventory hosts.toml --anonymous --out /tmp/site.json
  preflight check --from preflight-capture-….json

Nothing is changed or written on the hosts. Only the owner can read the file. Serial numbers, and
text that may be a password, key or token, are removed.

With --anonymous, machines, switches, accounts, domains and addresses get pseudonyms. The same name
gets the same pseudonym everywhere. Public domains, such as nvidia.com and github.com, are kept. If
a known name would remain, no file is written.

Read the file before you share it. The file also contains other output of tools, text from files,
and folder names.
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
    output.add_argument("--anonymous", action="store_true", help="replace host names and addresses with pseudonyms")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import capture

    return capture.run(args)
