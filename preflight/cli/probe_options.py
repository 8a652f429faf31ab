"""Options of the probe: tests, method and time limit."""

import argparse
import re

from preflight.app.run_options import LEAST_BUDGET
from preflight.cli.option_texts import TESTS
from preflight.cli.options import option_group
from preflight.model.measure import Scope
from preflight.probe.request import SCOPES

LARGEST = 64 << 30  # bytes of a size
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _sizes(text: str) -> tuple[int, ...]:
    """Parse sizes: `8,1M,16M` → bytes."""
    sizes = []
    for word in text.split(","):
        size = word.strip().upper()
        number = size.rstrip("KMG")
        unit = size[len(number) :]
        if not number.isdecimal() or unit not in _UNITS or not _is_size(int(number) * _UNITS[unit]):
            raise argparse.ArgumentTypeError(
                f"{word!r} is not a size: a multiple of 8 bytes up to 64G, such as 8, 64K, 1M or 2G"
            )
        sizes.append(int(number) * _UNITS[unit])
    return tuple(sorted(set(sizes)))


def _is_size(number: int) -> bool:
    """Return whether the size has whole elements of every type, as the inventory's `probe.sizes` requires."""
    return number > 0 and number % 8 == 0 and number <= LARGEST


def _scopes(text: str) -> tuple[Scope, ...]:
    """Parse scopes: `all,pair` → scopes."""
    try:
        return tuple(dict.fromkeys(Scope(word.strip().removesuffix("s")) for word in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of scopes: {', '.join(SCOPES)}") from None


def _seconds(text: str) -> float:
    """Parse a time: `90`, `60s` or `5m` → seconds."""
    match = re.fullmatch(r"(\d{1,6})\s*(s|m|h)?", text.strip())
    seconds = int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2] or "s"] if match else 0
    if seconds < LEAST_BUDGET:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 60s or 5m, of {LEAST_BUDGET:.0f} s or more")
    return float(seconds)


def add_request_arguments(parser: argparse.ArgumentParser) -> None:
    tests = option_group(parser, TESTS)
    tests.add_argument(
        "--backend",
        choices=("hccl", "nccl", "gloo"),
        help="backend of the collectives (default: from the inventory)",
    )
    tests.add_argument(
        "--with",
        dest="tool",
        choices=("torch", "hccl-test"),
        help="program that runs the collectives (default: torch, or the vendor's HCCL Test if no host has torch)",
    )
    tests.add_argument(
        "--sizes",
        type=_sizes,
        default=(),
        metavar="LIST",
        help="message sizes, separated by commas; multiples of 8 bytes, defined as in nccl-tests (default: 8,1M,16M)",
    )
    tests.add_argument(
        "--init",
        choices=("store", "env", "tcp", "file"),
        help="rendezvous of all ranks: store is preflight's own, jobs use the others (default: from the inventory)",
    )
    tests.add_argument(
        "--scope",
        type=_scopes,
        metavar="LIST",
        help="groups of devices to test, separated by commas: device, host, pair, rail, all (default: device,pair,all)",
    )
    tests.add_argument("--quick", action="store_true", help="run fewer operations and no training step")
    tests.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="random seed for the first round of pairs (default: a new seed in each run)",
    )
    add_budget_argument(tests)


def add_budget_argument(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--budget",
        type=_seconds,
        metavar="TIME",
        help="time limit, such as 60s or 10m; what remains then is unknown (default: 5m)",
    )
