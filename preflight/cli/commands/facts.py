"""Collect the facts of every host in one round trip, and print or save them. Nothing is changed, nothing is judged.

  preflight facts --inventory hosts.toml
  preflight facts --inventory hosts.toml --out facts.json
  preflight check --inventory hosts.toml --from facts.json
  preflight facts --local
  preflight facts --from capture.json

--local looks at this machine, without an inventory; what it is (Ascend or not) is told from the tools installed here.
"""

import argparse
from pathlib import Path

from preflight.cli.options import add_basic_argument, add_inventory_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    add_basic_argument(parser)
    parser.add_argument("--local", action="store_true", help="look at this machine; no inventory is read")
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="read a capture again, saved facts, or a support bundle",
    )
    parser.add_argument("-o", "--output", choices=("console", "json"), default="console")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the facts to FILE, as JSON, and print nothing")
    parser.add_argument("--raw", action="store_true", help="keep the tools' own output beside the values, redacted")


def run(args: argparse.Namespace) -> int:
    from preflight.cli.hosts import facts

    return facts.run(args)
