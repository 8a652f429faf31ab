"""Show what one parser makes of saved tool output: the parsers that read a host's facts, on a file or on stdin.

  hccn_tool -i 0 -ip -g > ip.txt; preflight parse hccn_tool.ip ip.txt
  preflight parse --list

What a parser does not understand is shown as an error with the text it stumbled over, and the exit code is 3.
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parser", nargs="?", metavar="PARSER", help="its name, such as hccn_tool.ip")
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="saved output; - or nothing: stdin")
    parser.add_argument("--list", action="store_true", help="list the parsers")
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import parse

    return parse.run(args)
