"""Options shared by many commands: hosts, products, devices and runs."""

import argparse
import shlex
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from preflight.app.options import DEFAULT_INVENTORY, HostOptions
from preflight.app.site_engine import ENGINES
from preflight.cli.option_texts import FORM_HELP, HOSTS, LIMIT_HELP, NAMES_HELP, OUTPUT, SELECTION
from preflight.inventory import load
from preflight.model.cluster import Cluster, Product
from preflight.model.ports import PortSet
from preflight.model.product_names import not_known

Options = TypeVar("Options", bound=HostOptions)
_MOST_DEVICES = 64  # on one host
_FROM_SETTINGS = "the variable PREFLIGHT_INVENTORY, or hosts.toml"
MOST_AT_ONCE = 4096  # hosts


def option_group(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """Return the parser's group of options with this title. Add it if the parser has none."""
    groups = parser._action_groups  # argparse has no public access to them
    return next((group for group in groups if group.title == title), None) or parser.add_argument_group(title)


def add_inventory_arguments(
    parser: argparse.ArgumentParser, default: str = "hosts.toml", *, names: bool = False, via: bool = True
) -> None:
    """Add the options on hosts and the connection to them.

    `default`: the inventory without -i, in words. `names`: also add --hosts, for hosts without an inventory. `via`: add
    --via, unless the command has its own.
    """
    hosts = option_group(parser, HOSTS)
    selection = hosts.add_mutually_exclusive_group()
    selection.add_argument(
        "-i",
        "--inventory",
        type=Path,
        default=DEFAULT_INVENTORY if default == "hosts.toml" else None,
        metavar="FILE",
        help=f"inventory (default: {_FROM_SETTINGS if default == 'hosts.toml' else default})",
    )
    if names:
        selection.add_argument("--hosts", metavar="HOSTS", help=NAMES_HELP)
    hosts.add_argument("--limit", metavar="HOSTS", help=LIMIT_HELP)
    hosts.add_argument(
        "--accept-new",
        action="store_true",
        help="trust the keys of hosts that are not in known_hosts; changed keys are still refused",
    )
    hosts.add_argument(
        "-K",
        "--ask-sudo-password",
        action="store_true",
        help="ask once for the sudo password of hosts with sudo = true; the password is not stored",
    )
    hosts.add_argument("--pool", type=_pool, metavar="N", help="number of hosts to wait for at once (default: 4096)")
    if via:
        hosts.add_argument(
            "--via",
            choices=("ssh", *ENGINES),
            help="connection to the hosts: ssh, srun in the current job (slurm), or mpirun (mpi) (default: ssh)",
        )
    _add_log_arguments(hosts)


def _add_log_arguments(hosts: argparse._ArgumentGroup) -> None:
    hosts.add_argument(
        "-v", "--verbose", action="store_true", help="print ssh connections, steps and timings to stderr"
    )
    hosts.add_argument(
        "--log-file",
        type=Path,
        metavar="FILE",
        help="write ssh connections, steps and timings to FILE, with timestamps",
    )


def product_name(text: str) -> str:
    """Return the product's name as inventories spell it. An empty name, the option's default, stays empty.

    Raise ArgumentTypeError, with the closest name, for an unknown one.
    """
    if text and text not in tuple(Product):
        raise argparse.ArgumentTypeError(not_known(text))
    return text


def add_basic_argument(parser: argparse.ArgumentParser) -> None:
    option_group(parser, SELECTION).add_argument(
        "--basic",
        action="store_true",
        help="use only the basic facts and their checks; takes a few seconds instead of 20",
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of devices such as 0-3 or 0,1")
    return tuple(number for low, high in wanted.ranges for number in range(low, high + 1))


def device_count(text: str) -> int:
    """Parse a number of devices of one host. Raise ArgumentTypeError for other text."""
    if not text.isdigit() or len(text) > 2 or int(text) > _MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_MOST_DEVICES}")
    return int(text)


def add_publish_argument(parser: argparse.ArgumentParser) -> None:
    option_group(parser, OUTPUT).add_argument(
        "--publish", action="store_true", help="write each host's results to that host, for the gate (docs/gate.md)"
    )


def add_fail_on_argument(parser: argparse.ArgumentParser) -> None:
    option_group(parser, OUTPUT).add_argument(
        "--fail-on",
        choices=("warn", "fail"),
        default="fail",
        help="lowest severity that causes exit code 1 (default: fail)",
    )


def add_form_argument(parser: argparse.ArgumentParser) -> None:
    option_group(parser, OUTPUT).add_argument(
        "-o", "--output", choices=("console", "json"), default="console", help=FORM_HELP
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
    return load(path)
