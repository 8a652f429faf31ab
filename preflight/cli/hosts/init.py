"""`preflight init`: a first inventory, from answers on the terminal or from options."""

import argparse
import sys
from collections.abc import Callable
from importlib import resources
from typing import TypeVar

from preflight.app.files import refuse_place, write_whole
from preflight.cli.hosts.host_lists import read_back
from preflight.hostlists.host_list import HostList, ListedHost
from preflight.hostlists.inventory_import import ImportOptions, document_of
from preflight.inventory import dump
from preflight.inventory.errors import Location
from preflight.inventory.hostset import expand
from preflight.model.cluster import Product
from preflight.model.errors import UsageError
from preflight.model.product_names import not_known
from preflight.model.text import printable
from preflight.report.next_step import options

_HEAD = (
    "Written by preflight init. Correct what differs on your hosts.",
    "To see all tables and keys, run: preflight init --example",
)
_OF_CLUSTER = ('To open the firewall for whole networks, add for example: cidrs = ["10.1.0.0/24"]',)
_OF_DEVICES = ("The number of devices per host was assumed.",)
_OF_HOSTS = (
    "Each host is reached by its name, or by its address if there is one. For ssh settings, see [ssh] in the example.",
)
_OF_NPU_HOSTS = ("If the device NICs already have addresses, preflight learn adds them to this inventory.",)

_Answer = TypeVar("_Answer")


def run(args: argparse.Namespace) -> int:
    if args.example:
        print(resources.files("preflight.inventory").joinpath("example.toml").read_text(encoding="utf-8"), end="")
        return 0
    if args.out.exists() or args.out.is_symlink():
        raise UsageError(f"{args.out} already exists. Choose another file with -o, since init overwrites none.")
    refuse_place(args.out, "-o")
    _refuse_silent_input(args)
    product, names = _product(args), _names(args)
    listed = HostList(_listed_hosts(args, names))
    document, assumptions = document_of(listed, ImportOptions(args.name, product, args.user or "", args.devices))
    text = dump(document, _comments(product, assumed_devices=bool(assumptions)))
    read_back(text, listed)
    write_whole(args.out, text, "the inventory")
    print(f"{args.out}: an inventory of {len(names)} host{'' if len(names) == 1 else 's'}, product {product}")
    print(f"next: preflight check {options(args.out)}")
    return 0


def _refuse_silent_input(args: argparse.Namespace) -> None:
    """Raise UsageError if an option is missing and no terminal can ask for its value."""
    missing = [option for option, value in (("--hosts", args.hosts), ("--product", args.product)) if not value]
    if missing and not sys.stdin.isatty():
        raise UsageError(f"init needs {' and '.join(missing)}, because there is no terminal to ask on")


def _listed_hosts(args: argparse.Namespace, names: tuple[str, ...]) -> tuple[ListedHost, ...]:
    """Return the hosts with their ssh settings. Raise UsageError for addresses that do not match the names."""
    addresses = _expanded(args.address, "--address") if args.address is not None else names
    if len(addresses) != len(names):
        raise UsageError(f"--address has {len(addresses)} addresses for {len(names)} hosts")
    return tuple(
        ListedHost(name, address if address != name else None, port=args.port, sudo=args.sudo or None)
        for name, address in zip(names, addresses, strict=True)
    )


def _expanded(text: str, option: str) -> tuple[str, ...]:
    try:
        return expand(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _product(args: argparse.Namespace) -> str:
    return args.product or _asked(f"product ({', '.join(Product)}): ", _product_answer)


def _names(args: argparse.Namespace) -> tuple[str, ...]:
    if args.hosts is None:
        return _asked("hosts, such as node[01-04]: ", expand)
    return _expanded(args.hosts, "--hosts")


def _product_answer(text: str) -> str:
    """Return the product. Raise ValueError, with a sentence, for any other text."""
    if text not in tuple(Product):
        raise ValueError(not_known(text))
    return text


def _asked(question: str, parse: Callable[[str], _Answer]) -> _Answer:
    """Return the answer to a question on the terminal. Ask again until it is valid."""
    while True:
        print(question, end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            print(file=sys.stderr)
            raise UsageError("no answer, so no inventory was written")
        try:
            return parse(answer.strip())
        except ValueError as error:
            print(printable(str(error)), file=sys.stderr)


def _comments(product: str, *, assumed_devices: bool) -> dict[Location, tuple[str, ...]]:
    """Return the comments of the file, by the tables that they are in."""
    of_cluster = _OF_CLUSTER + (_OF_DEVICES if assumed_devices else ())
    of_hosts = _OF_HOSTS + (_OF_NPU_HOSTS if Product(product).is_npu else ())
    return {(): _HEAD, ("cluster",): of_cluster, ("hosts", 0): of_hosts}
