"""Parse the saved output of a tool, with the parsers that preflight uses for the facts of hosts.

  hccn_tool -i 0 -ip -g > ip.txt; preflight parse hccn_tool.ip ip.txt
  npu-smi info -t board -i 0 | preflight parse npu-smi.board
  preflight parse --list

If the parser does not understand its input, it prints an error and ends with exit code 3.
"""

import argparse

from preflight.cli.options import add_form_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parser", nargs="?", metavar="PARSER", help="name of the parser, such as hccn_tool.ip")
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="file with the saved output, or - for stdin (default: -)"
    )
    parser.add_argument("--list", action="store_true", help="list the parsers")
    add_form_argument(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import parse

    return parse.run(args)
