"""Print help for a command, or the list of all commands.

  preflight help
  preflight help check
  preflight help gate install

The --help option of a command prints the same text.
"""

import argparse

from preflight.cli.main import main


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="COMMAND",
        help="command, followed by its action if it has one (default: the list of commands)",
    )


def run(args: argparse.Namespace) -> int:
    return main([*args.words, "--help"])
