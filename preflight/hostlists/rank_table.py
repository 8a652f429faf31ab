"""Rank tables ⇄ host lists: of versions 1.0 and 1.2, MindCluster's hccl.json among them, what an inventory can take.

A table is refused where its servers or addresses are wrong; its ranks are a job's, and are not looked at.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import NoReturn

from preflight.hostlists.listed import Listed, ListedHost, Source
from preflight.inventory.hostset import check_name
from preflight.ranktable.read import read as read_table
from preflight.ranktable.rules import addresses, host_ips, ip, server_ids, status
from preflight.ranktable.syntax import offset_of, places
from preflight.ranktable.types import OLD, Problem, RankedDevice, RankTable, Server, numbered
from preflight.ranktable.write import text_of

_RULES = (server_ids, host_ips, addresses)
_SUPER_POD = "1.2"
_PRODUCTS = {"A3": "atlas-a3", "A2": "atlas-a2"}  # in hardware_type, "800I-A2-32G"


def read(source: Source) -> Listed:
    """The servers in the table's order; server_id is a host's name, host_ip its address."""
    table = _sound(source)
    notes: list[str] = []
    hosts = tuple(_host(source, server, notes) for server in table.servers)
    return source.listed(
        Listed(
            hosts,
            product=_product(table),
            slots_are_devices=True,
            superpod=table.version == _SUPER_POD,
            notes=tuple(notes[:1]) if len(notes) < 2 else (f"{notes[0]}; so it is of {len(notes)} hosts",),
        )
    )


def write(listed: Listed) -> str:
    """Version 1.0, ranks in the order of hosts and devices. Raises ValueError for what no table can say; super-pods
    have 1.2, and their devices' ids are no part of a list."""
    if listed.superpod:
        raise ValueError("a rank table of super-pods has the super device ids, which the devices alone can tell")
    for host in listed.hosts:
        if not host.device_ips:
            raise ValueError(f"a rank table wants the address of every device; those of {host.name} are not planned")
    table = numbered("1.0", [_server(host) for host in listed.hosts])
    if wrong := next(_broken(table), None):
        raise ValueError(wrong.text)
    return text_of(table)


def _broken(table: RankTable) -> Iterator[Problem]:
    return (problem for rule in _RULES for problem in rule(table) if not problem.warning)


def _sound(source: Source) -> RankTable:
    """Raises InventoryError with the first thing that is wrong, and its place."""
    reading = read_table(source.text)
    table = reading.table
    if table and table.version == OLD:
        text = "this is a rank table of the old format, which is not read; one with server_list is"
        _refuse(source, Problem("version", text, ("group_list",)))
    if table and table.version not in ("1.0", _SUPER_POD):
        text = f"rank tables of version 1.0 and 1.2 are read, found {table.version!r}"
        _refuse(source, Problem("version", text, ("version",)))
    wrong = [*status(reading), *reading.problems, *(_broken(table) if table else ())]
    if wrong or table is None:
        _refuse(source, wrong[0])
    return table


def _refuse(source: Source, problem: Problem) -> NoReturn:
    source.wrong(offset_of(problem, places(source.text) if problem.path else {}), problem.text)


def _product(table: RankTable) -> str:
    """What hardware_type says; without it, version 1.2 is that of A3."""
    words = {word for server in table.servers for word in server.hardware_type.split("-")}
    told = next((product for part, product in _PRODUCTS.items() if part in words), "")
    return told or ("atlas-a3" if table.version == _SUPER_POD else "")


def _host(source: Source, server: Server, notes: list[str]) -> ListedHost:
    """A device that several ranks have counts once. What had to be left out is added to `notes`."""
    name = server.id
    try:
        check_name(name)
    except ValueError as error:
        _refuse(source, Problem("server-id", str(error), (*server.path, "server_id")))
    devices: dict[int, str] = {}
    for device in server.devices:
        if devices.setdefault(device.device_id, device.device_ip) != device.device_ip:
            text = f"device {device.device_id} of {name} stands there with another device_ip, too"
            _refuse(source, Problem("device-ip", text, device.path))
    known = [ip(devices[number]) for number in sorted(devices)]
    ips = tuple(address for address in known if isinstance(address, IPv4Address))
    slots = len(devices) or None
    if set(devices) != set(range(len(devices))):
        notes.append(f"{name} has only some of its devices in the table, so their number and addresses were left out")
        slots, ips = None, ()
    elif len(ips) < len(devices):
        if ips:
            notes.append(f"not all devices of {name} have an address of IPv4 in the table, so they were left out")
        ips = ()
    address = server.host_ip if server.host_ip not in ("", name) else None
    return ListedHost(name, address, slots, device_ips=ips, path=(*server.path, "device", 0, "device_ip"))


def _server(host: ListedHost) -> Server:
    devices = tuple(RankedDevice(0, number, (), str(at)) for number, at in enumerate(host.device_ips))
    return Server(host.name, devices, (), host_ip=host.address or "")
