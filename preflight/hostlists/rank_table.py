"""Rank tables of versions 1.0 and 1.2, MindCluster's hccl.json among them, as host lists.

A table is refused if its servers or addresses are wrong. Its ranks belong to a job, and are not checked.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import NoReturn

from preflight.hostlists.host_list import HostList, ListedHost, ListSource
from preflight.inventory.hostset import check_name
from preflight.ranktable.read import read as read_table
from preflight.ranktable.rules import addresses, host_ips, ip, server_ids, status
from preflight.ranktable.syntax import offset_of, places
from preflight.ranktable.types import OLD, RankedDevice, RankTable, Server, TableProblem, number_ranks
from preflight.ranktable.write import text_of

_RULES = (server_ids, host_ips, addresses)
_SUPER_POD = "1.2"
_PRODUCTS = {"A3": "atlas-a3", "A2": "atlas-a2"}  # in hardware_type, "800I-A2-32G"


def read(source: ListSource) -> HostList:
    """Read the servers in the table's order. A server_id is a host's name, host_ip its address."""
    table = _valid_table(source)
    notes: list[str] = []
    hosts = tuple(_host(source, server, notes) for server in table.servers)
    return source.valid_list(
        HostList(
            hosts,
            product=_product(table),
            slots_are_devices=True,
            superpod=table.version == _SUPER_POD,
            notes=tuple(notes) if len(notes) < 2 else (f"{notes[0]} (the same for {len(notes)} hosts)",),
        )
    )


def write(host_list: HostList) -> str:
    """Return a table of version 1.0 with ranks in the order of hosts and devices.

    Raises ValueError for values that no table can have, and for super-pods: they need version 1.2, and a list does not
    have their super device ids.
    """
    if host_list.superpod:
        raise ValueError("a rank table of super-pods needs super device ids, which only the devices know")
    for host in host_list.hosts:
        if not host.device_ips:
            raise ValueError(
                f"a rank table needs the address of every device, but the inventory has none for {host.name}"
            )
    table = number_ranks("1.0", [_server(host) for host in host_list.hosts])
    if problem := next(_problems(table), None):
        raise ValueError(problem.text)
    return text_of(table)


def _problems(table: RankTable) -> Iterator[TableProblem]:
    return (problem for rule in _RULES for problem in rule(table) if not problem.warning)


def _valid_table(source: ListSource) -> RankTable:
    """Raise InventoryError with the first problem and its place."""
    reading = read_table(source.text)
    table = reading.table
    if table and table.version == OLD:
        text = "rank tables of the old format are not supported. Use one with server_list"
        _refuse(source, TableProblem("version", text, ("group_list",)))
    if table and table.version not in ("1.0", _SUPER_POD):
        text = f"the version should be 1.0 or 1.2, found {table.version!r}"
        _refuse(source, TableProblem("version", text, ("version",)))
    problems = [*status(reading), *reading.problems, *(_problems(table) if table else ())]
    if problems or table is None:
        _refuse(source, problems[0])
    return table


def _refuse(source: ListSource, problem: TableProblem) -> NoReturn:
    source.fail(offset_of(problem, places(source.text) if problem.path else {}), problem.text)


def _product(table: RankTable) -> str:
    """Return the product of hardware_type, or A3 for a table of version 1.2 without it."""
    words = {word for server in table.servers for word in server.hardware_type.split("-")}
    default = "atlas-a3" if table.version == _SUPER_POD else ""
    return next((product for part, product in _PRODUCTS.items() if part in words), default)


def _host(source: ListSource, server: Server, notes: list[str]) -> ListedHost:
    """Return a server as a host, and add a note on anything left out."""
    try:
        check_name(server.id)
    except ValueError as error:
        _refuse(source, TableProblem("server-id", str(error), (*server.path, "server_id")))
    devices = _device_addresses(source, server)
    slots = len(devices) or None
    parsed = [ip(text) for _, text in sorted(devices.items())]
    ips = tuple(address for address in parsed if isinstance(address, IPv4Address))
    if devices.keys() != set(range(len(devices))):
        notes.append(f"the table has only some devices of {server.id}, so their number and addresses were left out")
        slots, ips = None, ()
    elif len(ips) < len(devices):
        if ips:
            notes.append(
                f"not all devices of {server.id} have an IPv4 address in the table, so the addresses were left out"
            )
        ips = ()
    address = server.host_ip if server.host_ip not in ("", server.id) else None
    return ListedHost(server.id, address, slots, device_ips=ips, path=(*server.path, "device", 0, "device_ip"))


def _device_addresses(source: ListSource, server: Server) -> dict[int, str]:
    """Return the address of each device, which several ranks may share."""
    devices: dict[int, str] = {}
    for device in server.devices:
        if devices.setdefault(device.device_id, device.device_ip) != device.device_ip:
            text = f"device {device.device_id} of {server.id} is also listed with another device_ip"
            _refuse(source, TableProblem("device-ip", text, device.path))
    return devices


def _server(host: ListedHost) -> Server:
    devices = tuple(RankedDevice(0, number, (), str(address)) for number, address in enumerate(host.device_ips))
    return Server(host.name, devices, (), host_ip=host.address or "")
