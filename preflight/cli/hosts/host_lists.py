"""`preflight inventory`: other tools' host lists, imported and exported."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from preflight.app.files import keep_ssh_paths, refuse_existing, write_whole
from preflight.app.options import DEFAULT_INVENTORY
from preflight.cli.text_file import STDIN, text_of
from preflight.hostlists import slurm_environment
from preflight.hostlists.formats import FORMATS, read
from preflight.hostlists.host_list import HostList, ListSource
from preflight.hostlists.inventory_export import host_list_of, left_out
from preflight.hostlists.inventory_import import AddressError, ImportOptions, by_name, document_of
from preflight.hostlists.json_node import Node
from preflight.inventory import InventoryError, dump, limit, load, parse, tables
from preflight.model.cluster import Device, Host
from preflight.model.errors import PreflightError, UsageError
from preflight.model.text import printable

_LARGEST_LIST = 64 << 20  # bytes; Ansible's list of 65,536 hosts takes half of it
_UNWRITTEN = "as imported"
_SHOWN = 20  # problems that are shown
_FROM_ENVIRONMENT = ("slurm", "slurm-env")


def run(args: argparse.Namespace) -> int:
    if args.out:
        refuse_existing(args.out, force=args.force)
    return _import(args) if args.action == "import" else _export(args)


def _import(args: argparse.Namespace) -> int:
    source = _source(args)
    format_, listed = read(source, args.format or "")
    before, base = _base(args) if args.base else ((), None)
    listed = by_name(listed, base)
    if args.group and not FORMATS[format_].groups:
        raise UsageError(f"--group: {source.name} has the format {format_}, which has no groups")
    import_options = ImportOptions(args.name, args.product, args.user, args.devices, args.prefix)
    try:
        document, assumed = document_of(listed, import_options, base)
    except AddressError as error:
        Node(source, None, error.path).fail(str(error))
    head = [f"Imported from {source.name} (--from {format_}) by preflight inventory import.", *assumed]
    text = dump(document, {(): head})
    hosts = read_back(text, listed)
    _give(args, text, "the inventory")
    for sentence in (*assumed, *_moved(before, hosts, listed)):
        _say(f"! {sentence}")
    _say(f"{len(listed.hosts)} host{'s' * (len(listed.hosts) != 1)} from {source.name}, read as {format_}")
    save = "" if args.out else f"save this as {DEFAULT_INVENTORY}, then: "
    _say(f"next: {save}preflight check --inventory {shlex.quote(str(args.out or DEFAULT_INVENTORY))}")
    return 0


def _export(args: argparse.Namespace) -> int:
    cluster = load(args.inventory)
    form = FORMATS[args.format]
    hosts = cluster.hosts if args.limit is None else limit(cluster, args.limit)
    listed = host_list_of(hosts, by_address=args.addresses or form.by_address, superpod=cluster.superpod)
    text = _written(args, listed)
    _give(args, text, "the host list")
    for sentence in _losses(args, hosts, listed):
        _say(f"! {sentence}")
    out = args.out or Path("FILE")
    whole = shlex.quote(str(out.absolute()))
    _say(f"next: {form.use.format(shlex.quote(str(out)), whole=whole, host=listed.hosts[0].name)}")
    return 0


def _written(args: argparse.Namespace, listed: HostList) -> str:
    """Return the list in its format. Raise UsageError if the format has no place for it."""
    try:
        return FORMATS[args.format].write(listed)
    except ValueError as error:
        asks = f"preflight ranktable --inventory {shlex.quote(str(args.inventory))} -o FILE"
        advice = f". To collect them from the hosts: {asks}" if listed.superpod else ""
        raise UsageError(f"--to {args.format}: {error}{advice}") from error


def _losses(args: argparse.Namespace, hosts: Sequence[Host], listed: HostList) -> Iterator[str]:
    """Yield sentences on what the list has no place for, or has otherwise."""
    form = FORMATS[args.format]
    if missing := left_out(listed, form):
        yield f"left out, because {args.format} cannot store it: {', '.join(missing)}"
    if form.by_address and not args.addresses and any(host.name != host.address for host in hosts):
        yield f"left out: the host names. {args.format} uses addresses instead."
    if args.format == "rank-table" and not _is_sorted(hosts):
        yield "ranks are in the order of the inventory. For MindSpore, order them by server_id: preflight ranktable"


def _is_sorted(hosts: Sequence[Host]) -> bool:
    """Return whether the hosts are in the lexical order of their addresses."""
    addresses = [host.address for host in hosts]
    return addresses == sorted(addresses)


def _source(args: argparse.Namespace) -> ListSource:
    """Return the list's text from a file, stdin or the environment."""
    if args.file is None:
        if args.format not in _FROM_ENVIRONMENT:
            raise UsageError("inventory import needs a FILE with the host list, - for stdin, or --from slurm-env")
        args.format = "slurm-env"
        return ListSource(slurm_environment.ENVIRONMENT, slurm_environment.text_of(os.environ))
    text = text_of(args.file, _LARGEST_LIST, "host list").removeprefix("\ufeff")
    name = "stdin" if args.file == STDIN else args.file
    return ListSource(name, text.replace("\r\n", "\n").replace("\r", "\n"), args.group)


def _base(args: argparse.Namespace) -> tuple[Sequence[Host], Mapping[str, Any]]:
    """Return the hosts and tables of --base.

    Relative paths in the tables are changed to start from the folder of the new inventory.
    """
    hosts = load(args.base).hosts  # reports problems of the file with their lines
    base = tables(args.base)
    keep_ssh_paths(base, args.base, args.out or DEFAULT_INVENTORY)
    return hosts, base


def _moved(before: Sequence[Host], now: Sequence[Host], listed: HostList) -> Iterator[str]:
    """Yield a sentence if devices of a host get other addresses than in --base, though the list has none for them."""
    planned = {host.name: host.devices for host in before}
    silent = {host.name for host in listed.hosts if not host.device_ips}
    for host in (host for host in now if host.name in silent):
        for old, new in zip(planned.get(host.name, ()), host.devices, strict=False):
            if _has_moved(old, new):
                change = f"device {new.index} of {host.name} had {_ip(old)} in --base, and now gets {_ip(new)}"
                yield f'{change}. To keep addresses if the order changes, set device_addresses.by = "name".'
                return


def _has_moved(old: Device, new: Device) -> bool:
    return bool(old.address and new.address and new.address != old.address)


def _ip(device: Device) -> str:
    return str(device.address.ip) if device.address else ""


def read_back(text: str, listed: HostList) -> Sequence[Host]:
    """Return the hosts of the new inventory.

    Raise UsageError if it is invalid, and PreflightError if its hosts are not those of the list, in its order.
    """
    try:
        cluster = parse(text, Path(_UNWRITTEN))
    except InventoryError as error:
        _, *problems = str(error).splitlines()
        # Without the line numbers of a file that was not written.
        messages = [re.sub(rf"^{_UNWRITTEN}:\d+: ", "", problem) for problem in problems[:_SHOWN]]
        messages += [f"… and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise UsageError(
            "\n".join(["the result is not a valid inventory, so nothing was written:", *messages])
        ) from error
    pairs = list(zip(listed.hosts, cluster.hosts, strict=False))
    alike = all(host.name == host_read.name and host.address in (None, host_read.address) for host, host_read in pairs)
    if not alike or not len(pairs) == len(listed.hosts) == len(cluster.hosts):
        raise PreflightError("the inventory would have different hosts from the list, so nothing was written")
    return cluster.hosts


def _give(args: argparse.Namespace, text: str, what: str) -> None:
    if args.out:
        write_whole(args.out, text, what)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def _say(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr)
