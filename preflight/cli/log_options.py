"""Options on logs of hosts."""

import argparse
import re

_UNITS = {"m": 60, "h": 3600, "d": 86400}


def add_fetch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fetch", action="store_true", help="bring the logs of all hosts first, one round trip a host")
    parser.add_argument(
        "--since",
        type=_age,
        metavar="AGE",
        help="of --fetch: only logs that were changed in the last 24h (default), 90m, 7d …",
    )
    parser.add_argument(
        "--most",
        type=_mebibytes,
        metavar="MIB",
        help="of --fetch: MiB from a host "
        "(default: 32, and 2048 of all), the newest logs first, a quarter of it a file",
    )


def _age(text: str) -> int:
    """Parse an age such as 90m, 24h or 7d into seconds."""
    match = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no age such as 90m, 24h or 7d")
    return int(match[1]) * _UNITS[match[2]]


def _mebibytes(text: str) -> int:
    """Parse a number of MiB into bytes."""
    if not text.isdigit() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of MiB from 1 to 1024")
    return int(text) << 20
