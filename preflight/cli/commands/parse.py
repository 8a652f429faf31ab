"""Parse saved output of a tool with one of the parsers that read a host's facts.

  hccn_tool -i 0 -ip -g > ip.txt; preflight parse hccn_tool.ip ip.txt
  npu-smi info -t board -i 0 | preflight parse npu-smi.board
  preflight parse --list

Text that the parser does not understand is printed as an error, and the exit code is 3.
"""

import argparse

from preflight.cli.options import add_form_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parser", nargs="?", metavar="PARSER", help="name of the parser, such as hccn_tool.ip")
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="saved output; - is stdin (default: -)")
    parser.add_argument("--list", action="store_true", help="list the parsers")
    add_form_argument(parser)


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import parse

    return parse.run(args)
