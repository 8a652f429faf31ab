"""Print the help of a command, as its --help does; of none: the list of all commands.

preflight help
preflight help check
preflight help gate install
"""

import argparse

from preflight.cli.main import main


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="a command, and one of its own")


def run(args: argparse.Namespace) -> int:
    return main([*args.words, "--help"])
