"""Rank tables of versions 1.0 and 1.2, among them MindCluster's hccl.json: servers, and the addresses of their devices.

Only what an inventory takes from them; whether a table is right is another question, and so is one for a job.
"""

import json
from collections.abc import Iterator
from ipaddress import IPv4Address, ip_address
from typing import Any

from preflight.inventory.lists import json_node
from preflight.inventory.lists.json_node import Node
from preflight.inventory.lists.listed import Listed, ListedHost, Source, whole_number

_MOST_DEVICES = 64
_SUPER_POD = "1.2"
_PRODUCTS = {"A3": "atlas-a3", "A2": "atlas-a2"}  # in hardware_type, "800I-A2-32G"


def read(source: Source) -> Listed:
    """The servers in the table's order; server_id is a host's name, host_ip its address."""
    top = json_node.read(source)
    members = top.members()
    if "group_list" in members:
        members["group_list"].wrong(
            "this is a rank table of the old format, which is not read; one with server_list is"
        )
    version = top.member("version").text() if "server_list" in members else str(members.get("version") and "another")
    if version not in ("1.0", _SUPER_POD):
        at = members.get("version", top)
        at.wrong(f"rank tables of version 1.0 and 1.2 are read, found {at.value!r}"[:160])
    status = top.member("status").text()
    if status != "completed":
        members["status"].wrong(f"the table is not whole yet: its status is {status[:40]!r}, not 'completed'")
    names: dict[str, Node] = {}
    used: dict[IPv4Address, str] = {}
    hosts = [_host(server, names, used) for server in top.member("server_list").elements()]
    notes = [note for host, note in hosts if note]
    return source.listed(
        Listed(
            tuple(host for host, _ in hosts),
            product=_product(top, version),
            slots_are_devices=True,
            superpod=version == _SUPER_POD,
            notes=tuple(notes[:1]) if len(notes) < 2 else (f"{notes[0]}; so it is of {len(notes)} hosts",),
        )
    )


def write(listed: Listed) -> str:
    """Version 1.0, ranks in the order of hosts and devices. Raises ValueError where a device has no address."""
    servers: list[dict[str, Any]] = []
    rank = 0
    for host in listed.hosts:
        if not host.device_ips:
            raise ValueError(f"a rank table wants the address of every device; those of {host.name} are not planned")
        devices = []
        for device, address in enumerate(host.device_ips):
            devices.append({"device_id": str(device), "device_ip": str(address), "rank_id": str(rank)})
            rank += 1
        address_of_host = host.address or (host.name if _is_address(host.name) else None)
        servers.append(
            {
                "server_id": host.name,
                **({"host_ip": address_of_host} if address_of_host else {}),
                "device": devices,
            }
        )
    table = {"version": "1.0", "server_count": str(len(servers)), "server_list": servers, "status": "completed"}
    return json.dumps(table, indent=4) + "\n"


def _product(top: Node, version: str) -> str:
    """What hardware_type says; without it, version 1.2 is that of A3."""
    for server in top.member("server_list").value:
        said = str(server.get("hardware_type"))
        for part, product in _PRODUCTS.items():
            if part in said.split("-"):
                return product
    return "atlas-a3" if version == _SUPER_POD else ""


def _host(server: Node, names: dict[str, Node], used: dict[IPv4Address, str]) -> tuple[ListedHost, str]:
    """A server, and what has to be said of it."""
    identity = server.member("server_id")
    name = identity.host()
    if names.setdefault(name, identity) is not identity:
        identity.wrong(f"server {name} stands there twice")
    said = server.members()
    address = said["host_ip"].host() if said.get("host_ip") and said["host_ip"].value else None
    found = dict(sorted(_devices(server, name, used)))
    ips = tuple(ip for ip in found.values() if ip)
    note = ""
    if list(found) != list(range(len(found))):
        note = f"{name} has only some of its devices in the table, so their number and addresses were left out"
        found, ips = {}, ()
    elif len(ips) < len(found):
        note = f"not all devices of {name} have an address of IPv4 in the table, so they were left out" if ips else ""
        ips = ()
    return ListedHost(name, None if address == name else address, len(found) or None, device_ips=ips), note


def _devices(server: Node, name: str, used: dict[IPv4Address, str]) -> Iterator[tuple[int, IPv4Address | None]]:
    """Device id → its address. A device that several ranks have counts once."""
    seen: dict[int, IPv4Address | None] = {}
    devices = server.member("device")
    devices.elements()
    for n, device in enumerate(devices.value):  # tens of thousands: a Node is made where something is wrong
        here = Node(server.source, device, (*devices.path, n))
        said = device.get("device_id") if isinstance(device, dict) else here.members()
        number = whole_number(said, 0, _MOST_DEVICES - 1) if isinstance(said, str) else None
        if number is None:
            identity = here.member("device_id")
            identity.wrong(
                f'device_id should be a number in quotes, "0" to "{_MOST_DEVICES - 1}", found {said!r}'[:160]
            )
        ip = _ip(here)
        if number in seen:
            if seen[number] != ip:
                here.wrong(f"device {number} of {name} stands there with another device_ip, too")
            continue
        seen[number] = ip
        owner = f"device {number} of {name}"
        if ip and used.setdefault(ip, owner) != owner:
            here.member("device_ip").wrong(f"{ip} is the address of {used[ip]}, too")
        yield number, ip


def _ip(device: Node) -> IPv4Address | None:
    """None where there is none, or one of IPv6, which an inventory does not plan."""
    said = device.value.get("device_ip")
    if not said:
        return None
    try:
        address = ip_address(said if isinstance(said, str) else "")
    except ValueError:
        device.member("device_ip").wrong(f"device_ip is no address in quotes: {str(said)[:60]!r}")
    return address if isinstance(address, IPv4Address) else None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
