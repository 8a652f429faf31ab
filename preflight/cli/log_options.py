"""Options on logs of hosts."""

import argparse
import re

from preflight.cli.option_texts import LOGS
from preflight.cli.options import option_group

LOG_HELP = "log file or folder of logs; with --fetch, a path on the hosts, with * and ? as wildcards"
_UNITS = {"m": 60, "h": 3600, "d": 86400}


def add_fetch_arguments(parser: argparse.ArgumentParser) -> None:
    logs = option_group(parser, LOGS)
    logs.add_argument(
        "--fetch", action="store_true", help="first collect the logs of all hosts, in one round trip per host"
    )
    logs.add_argument(
        "--since",
        type=_age,
        metavar="AGE",
        help="with --fetch: maximum age of a log, such as 90m, 24h or 7d (default: 24h)",
    )
    logs.add_argument(
        "--most",
        type=_mebibytes,
        metavar="MIB",
        help="with --fetch: maximum MiB per host, newest logs first and at most a quarter from one file "
        "(default: 32, and 2048 for all hosts together)",
    )


def _age(text: str) -> int:
    """Parse an age such as 90m, 24h or 7d into seconds."""
    match = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not an age such as 90m, 24h or 7d")
    return int(match[1]) * _UNITS[match[2]]


def _mebibytes(text: str) -> int:
    """Parse a number of MiB into bytes."""
    if not text.isdigit() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of MiB from 1 to 1024")
    return int(text) << 20
