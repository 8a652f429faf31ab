"""Options shared by many commands: hosts, products, devices and runs."""

import argparse
import shlex
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from preflight.app.options import DEFAULT_INVENTORY, HostOptions
from preflight.model.cluster import Cluster, Product
from preflight.model.ports import PortSet
from preflight.model.product_names import not_known

Options = TypeVar("Options", bound=HostOptions)
_MOST_DEVICES = 64  # on one host


RUN_HELP = "a run's id, a unique beginning of it, or last"
MOST_AT_ONCE = 64  # hosts; paramiko does not get faster with more


def add_inventory_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i", "--inventory", type=Path, default=DEFAULT_INVENTORY, metavar="FILE", help="default: hosts.toml"
    )
    parser.add_argument("--limit", metavar="HOSTS", help="only these hosts, such as node[01-04],node09")
    parser.add_argument(
        "--accept-new", action="store_true", help="trust host keys seen for the first time (a changed key is refused)"
    )
    parser.add_argument(
        "-K",
        "--ask-sudo-password",
        action="store_true",
        help="ask for the password that sudo wants on hosts with sudo = true; once, and it is kept nowhere",
    )
    parser.add_argument("--pool", type=_pool, default=32, metavar="N", help="hosts worked on at once (default: 32)")


def product_name(text: str) -> str:
    """Return the product's name as inventories spell it. An empty name, the option's default, stays empty.

    Raise ArgumentTypeError, with the closest name, for an unknown one.
    """
    if text and text not in tuple(Product):
        raise argparse.ArgumentTypeError(not_known(text))
    return text


def add_basic_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--basic", action="store_true", help="look at what a first look needs, and no deeper: seconds instead of 20"
    )


def again(args: argparse.Namespace) -> str:
    """Return this very command, without the options that keep it from changing anything."""
    words = [word for word in args.argv if word not in ("--dry-run", "--exit-code")]
    return shlex.join(["preflight", *words])


def _pool(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_AT_ONCE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_AT_ONCE}")
    return int(text)


def devices(text: str) -> tuple[int, ...]:
    """Parse indices of devices: `0-3,6` → (0, 1, 2, 3, 6). Raise ArgumentTypeError for other text."""
    try:
        wanted = PortSet.parse(text)  # the same notation
    except ValueError:
        wanted = PortSet()
    if not wanted or wanted.ranges[-1][1] >= _MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of devices such as 0-3 or 0,1")
    return tuple(number for low, high in wanted.ranges for number in range(low, high + 1))


def add_publish_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--publish", action="store_true", help="leave on each host what was found there, for the gate (docs/gate.md)"
    )


def options_of(kind: type[Options], args: argparse.Namespace) -> Options:
    """Return the options of a use case, from the arguments of the same names, or else the defaults."""
    parsed = vars(args)
    return kind(**{field.name: parsed[field.name] for field in fields(kind) if field.name in parsed})


def host_options(args: argparse.Namespace) -> HostOptions:
    return options_of(HostOptions, args)


def run_options(kind: type[Options], args: argparse.Namespace) -> Options:
    """Return the options of a run, with the command that repeats it."""
    return options_of(kind, argparse.Namespace(**vars(args), again=again(args)))


def read_inventory(path: Path) -> Cluster:
    """Return the inventory's cluster. It is read before a command's modules are loaded, so that errors come at once."""
    from preflight.inventory import load

    return load(path)
