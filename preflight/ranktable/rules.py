"""The rules of a rank table: each is a function from the table to its problems. Pure.

The rules are those of HCCL's user guide (cluster_info_config/rank_table_config_*.md) unless a docstring gives another
source. A wrong value breaks one rule: no rule repeats the problem of another one.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import pairwise

from preflight.model.cluster import Product
from preflight.model.text import quote
from preflight.ranktable.device_sets import device_set_problems
from preflight.ranktable.read import Reading
from preflight.ranktable.super_pods import SUPER_POD_RULES
from preflight.ranktable.types import (
    OLD,
    RankedDevice,
    RankTable,
    Server,
    TableProblem,
    format_path,
    format_rank,
    rank_problem,
)

LONGEST_ID = 64  # characters of a server_id
_LAST_DEVICE = 63  # N of /dev/davinciN
IPAddress = IPv4Address | IPv6Address
_VERSIONS: Mapping[Product, tuple[str, ...]] = {
    Product.ATLAS_A1: (OLD, "1.0"),
    Product.ATLAS_A2: ("1.0",),
    Product.ATLAS_A3: ("1.0", "1.2"),
}
_PLACEHOLDER = re.compile(r".*[*<>].*|(x{1,3}|[0-9]{1,3})([.-](x{1,3}|[0-9]{1,3})){3}", re.IGNORECASE)  # or an address


def judge(reading: Reading, product: Product | None = None) -> tuple[TableProblem, ...]:
    """Return all problems of a table, those of its form first. Without a product, its rules are left out."""
    unfinished = tuple(status(reading))
    table = reading.table
    if table is None:  # MindCluster's tables have nothing but a status while they are not finished
        return unfinished or reading.problems
    return (
        *reading.problems,
        *unfinished,
        *(problem for rule in (*_RULES, *SUPER_POD_RULES) for problem in rule(table)),
        *(problem for product_rule in _PRODUCT_RULES for problem in product_rule(table, product)),
    )


def status(reading: Reading) -> Iterator[TableProblem]:
    if reading.status is None and reading.table is not None:
        yield TableProblem("status", "status is missing. It must be 'completed'", ("status",))
    elif reading.status not in (None, "completed"):
        text = f"status is {quote(str(reading.status))}, so the table is incomplete. It must be 'completed'"
        yield TableProblem("status", text, ("status",))


def version(table: RankTable, product: Product | None) -> Iterator[TableProblem]:
    """Yield a problem for a format that the chip does not accept: HCCL ends in EI0014."""
    versions = _VERSIONS.get(product, ()) if product else ()
    if versions and table.version not in versions:
        form = "a group_list" if table.version == OLD else f"version {table.version}"
        accepted = " or ".join(version for version in versions if version != OLD)
        text = f"the table is {form}, which {product} does not support. Use version {accepted}"
        yield TableProblem("version", text, ("version",))


def counts(table: RankTable) -> Iterator[TableProblem]:
    """Yield problems of counts that differ from what they count, or are missing. Version 1.2 may omit server_count."""
    for count in table.counts:
        name = format_path(count.path)
        if count.given is None and not (table.version == "1.2" and count.what == "server_count"):
            yield TableProblem("count", f"{name} is missing. It must be {count.counted}", count.path)
        elif count.given not in (None, count.counted):
            yield TableProblem("count", f"{name} is {count.given}, but must be {count.counted}", count.path)


def server_ids(table: RankTable) -> Iterator[TableProblem]:
    """Yield problems of server ids: missing, too long, repeated, loopback addresses, or a manual's placeholders.

    Pods of a group_list may share a server. Users of hccl_tools.py get a loopback address where /etc/hosts maps the
    hostname to it. All servers then have it.
    """
    first: dict[str, Server] = {}
    for server in table.servers:
        path = (*server.path, "server_id")
        if not server.id:
            yield TableProblem("server-id", f"{format_path(server.path)} has no server_id", server.path)
        elif len(server.id) > LONGEST_ID:
            text = f"server_id {quote(server.id)} is longer than {LONGEST_ID} characters"
            yield TableProblem("server-id", text, path)
        elif server.id in first and table.version != OLD:
            servers = f"{format_path(first[server.id].path)} and {format_path(server.path)}"
            yield TableProblem("server-id", f"server_id {server.id} occurs twice, in {servers}", path)
        elif server.id.startswith("127."):
            text = f"server_id {server.id} is a loopback address"
            yield TableProblem("server-id", text, path, warning=True)
        elif _PLACEHOLDER.fullmatch(server.id) and ip(server.id) is None:
            text = f"server_id {quote(server.id)} looks like a placeholder from a manual, not an address"
            yield TableProblem("server-id", text, path, warning=True)
        first.setdefault(server.id, server)


def device_ids(table: RankTable) -> Iterator[TableProblem]:
    for server, device in table.ranked_devices:
        if device.device_id > _LAST_DEVICE:
            text = f": the highest device number on a server is {_LAST_DEVICE}"
            yield replace(rank_problem("device", server, device, "device_id", text), warning=True)


def host_ips(table: RankTable) -> Iterator[TableProblem]:
    for server in table.servers:
        if server.host_ip and ip(server.host_ip) is None:
            text = f"server {server.id}: host_ip {quote(server.host_ip)} is not an address"
            yield TableProblem("host-ip", text, (*server.path, "host_ip"))


def ranks(table: RankTable) -> Iterator[TableProblem]:
    """Yield problems unless ranks are 0 to N-1, each once."""
    first: dict[int, str] = {}
    entries = [(device.rank, format_rank(server, device), device.path) for server, device in table.ranked_devices]
    entries += [(rank.rank, f"rank {rank.rank} (device {rank.device_id})", rank.path) for rank in table.ranks]
    for rank, name, path in entries:
        if rank in first:
            text = f"{name}: rank_id {rank} is also used by {first[rank]}"
            yield TableProblem("rank", text, (*path, "rank_id"), rank=rank)
        elif rank >= len(entries):
            text = f"{name}: rank_id {rank} is not in 0-{len(entries) - 1}, the range for {len(entries)} ranks"
            yield TableProblem("rank", text, (*path, "rank_id"), rank=rank)
        first.setdefault(rank, name)


def interleaved(table: RankTable) -> Iterator[TableProblem]:
    """Yield a problem for each rank that is apart from the other ranks of its server."""
    last: dict[str, int] = {}  # server → its last rank so far
    before: tuple[Server, RankedDevice] | None = None
    for server, device in _sound_ranks(table):
        if server.id in last and before and before[0].id != server.id:
            text = (
                f": the ranks of a server must be consecutive. Server {server.id} also has rank {last[server.id]}, "
                f"but rank {before[1].rank} in between belongs to server {before[0].id}"
            )
            yield rank_problem("interleaved", server, device, "rank_id", text)
        last[server.id] = device.rank
        before = server, device


def mindspore_order(table: RankTable) -> Iterator[TableProblem]:
    """Yield a problem if ranks do not follow the lexical order of server_id.

    Source: MindSpore's tutorial on distributed training.
    """
    if any(interleaved(table)):
        return
    for before, after in pairwise(dict.fromkeys(server.id for server, _ in _sound_ranks(table))):
        if after < before:
            server = next(server for server in table.servers if server.id == after)
            text = (
                f"the ranks of server {after} follow those of server {before}, "
                "but MindSpore needs servers sorted lexically by server_id"
            )
            yield TableProblem("order", text, (*server.path, "server_id"), warning=True)
            return


def _sound_ranks(table: RankTable) -> list[tuple[Server, RankedDevice]]:
    """Return devices in the order of ranks, without ranks that are given twice or out of range: `ranks` has those."""
    times, size = Counter(device.rank for _, device in table.ranked_devices), table.size
    sound = (pair for pair in table.ranked_devices if times[pair[1].rank] == 1 and pair[1].rank < size)
    return sorted(sound, key=lambda pair: pair[1].rank)


def shared_devices(table: RankTable, product: Product | None) -> Iterator[TableProblem]:
    """Yield problems of devices with several ranks.

    Two ranks on one device end with EJ0001, or compete for its port (EI0020), unless each has a device_port. Atlas A1
    takes one rank a device, whatever their ports (constraints.md).
    """
    for server in table.servers:
        for number in _devices_of_several(server) if product is Product.ATLAS_A1 else shared(server):
            first, *_, last = (device for device in server.devices if device.device_id == number)
            a1 = product is Product.ATLAS_A1
            rule = "Atlas A1 supports one rank per device" if a1 else "Each rank on a device needs its own device_port"
            text = f": rank {first.rank} uses the same device. {rule}"
            yield rank_problem("device", server, last, "device_id", text)


def _devices_of_several(server: Server) -> list[int]:
    ranks = Counter(device.device_id for device in server.devices)
    return [device for device, count in ranks.items() if count > 1]


def shared(server: Server) -> tuple[int, ...]:
    """Return the devices that several ranks have, if no device_port distinguishes the ranks."""
    ports = Counter((device.device_id, device.device_port) for device in server.devices)
    return tuple(sorted({device for (device, _), ranks in ports.items() if ranks > 1}))


def addresses(table: RankTable) -> Iterator[TableProblem]:
    """Yield problems unless each device_ip is an address, of one device alone, and all are of one family."""
    first: dict[IPAddress, tuple[Server, RankedDevice]] = {}
    for server, device in table.ranked_devices:
        if not device.device_ip:
            continue
        address = ip(device.device_ip)
        if address is None:
            text = f": device_ip {quote(device.device_ip)} is not an address"
            yield rank_problem("device-ip", server, device, "device_ip", text)
            continue
        owner = first.setdefault(address, (server, device))
        if (owner[0].id, owner[1].device_id) != (server.id, device.device_id):
            text = f": device_ip {device.device_ip} is also used by {format_rank(*owner)}"
            yield rank_problem("device-ip", server, device, "device_ip", text)
        usual, example = next(iter(first.items()))
        if address.version != usual.version:
            text = (
                f": device_ip {device.device_ip} is an IPv{address.version} address, but {format_rank(*example)} has "
                f"an IPv{usual.version} address. All addresses must be of the same family"
            )
            yield rank_problem("device-ip", server, device, "device_ip", text)


def ip(text: str) -> IPAddress | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def addresses_needed(table: RankTable, product: Product | None) -> Iterator[TableProblem]:
    if condition := why_addresses(table.version, len(table.servers), len(table.super_pods), product):
        for server, device in table.ranked_devices:
            if not device.device_ip:
                yield rank_problem("device-ip", server, device, "", f" has no device_ip. It is required {condition}")


def why_addresses(version: str, servers: int, super_pods: int, product: Product | None) -> str:
    """Return the condition that makes device addresses necessary in the table, as words, or nothing."""
    if version == OLD:
        return "in a group_list"
    if product is Product.ATLAS_A1:
        return "on Atlas A1"
    if version == "1.0" and servers > 1:
        return "for more than one server"
    return "for more than one super-pod" if version == "1.2" and super_pods > 1 else ""


def ports(table: RankTable) -> Iterator[TableProblem]:
    """Yield problems of ports out of 1-65535, and of ports that must differ but do not.

    These are the host_port of the ranks of a server, and main and backup port of a NIC.
    """
    for server in table.servers:
        owners: dict[str, RankedDevice] = {}  # of a host_port
        main = {device.device_ip: device for device in server.devices if device.device_ip and device.device_port}
        for device in server.devices:
            yield from _port_ranges(server, device)
            owner = owners.setdefault(device.host_port, device)
            if device.host_port and owner is not device:
                text = f": host_port {device.host_port} is also used by rank {owner.rank}"
                yield rank_problem("port", server, device, "host_port", text)
            backup = main.get(device.backup_device_ip)
            if backup and device.backup_device_port == backup.device_port:
                text = (
                    f": backup_device_port {device.backup_device_port} must differ from the device_port of rank "
                    f"{backup.rank}, because both use the address {backup.device_ip}"
                )
                yield rank_problem("port", server, device, "backup_device_port", text)


def _port_ranges(server: Server, device: RankedDevice) -> Iterator[TableProblem]:
    for key in ("device_port", "host_port", "backup_device_port"):
        port = getattr(device, key)
        if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            yield rank_problem("port", server, device, key, f": {key} {quote(port)} is not in 1-65535")


def addresses_of_ranks(table: RankTable) -> Iterator[TableProblem]:
    """Yield problems of rank addresses. They are only warnings, since version 2.0 is known from the manual alone."""
    first: dict[tuple[str, str], int] = {}
    for rank in table.ranks:
        for address in rank.addresses:
            version = {"IPV4": 4, "IPV6": 6}.get(address.type)
            parsed = ip(address.value)
            if not address.value or (version and (parsed is None or parsed.version != version)):
                problem = f"is not an address of type {quote(address.type)}"
            elif (owner := first.setdefault((address.type, address.value), rank.rank)) != rank.rank:
                problem = f"is also an address of rank {owner}"
            else:
                continue
            text = f"rank {rank.rank}: addr {quote(address.value)} {problem}"
            yield TableProblem("addr", text, (*address.path, "addr"), rank=rank.rank, warning=True)


def empty(table: RankTable) -> Iterator[TableProblem]:
    if not table.size:
        key = {"2.0": "rank_list", OLD: "group_list"}.get(table.version, "server_list")
        yield TableProblem("rank", "the table has no devices", (key,))
    for server in table.servers:
        if not server.devices and table.size:
            yield TableProblem("rank", f"server {server.id} has no devices", (*server.path, "device"))


def device_sets(table: RankTable, product: Product | None) -> Iterator[TableProblem]:
    """Yield problems of device sets. A group_list is left out: its servers are pods with any part of a server."""
    if table.version != OLD:
        sets = [
            (server.path, f"server {server.id}", tuple(sorted({device.device_id for device in server.devices})))
            for server in table.servers
            if server.devices
        ]
        yield from device_set_problems(product, sets)


_RULES: tuple[Callable[[RankTable], Iterable[TableProblem]], ...] = (
    counts,
    empty,
    server_ids,
    device_ids,
    host_ips,
    ranks,
    interleaved,
    mindspore_order,
    addresses,
    ports,
    addresses_of_ranks,
)
_PRODUCT_RULES: tuple[Callable[[RankTable, Product | None], Iterable[TableProblem]], ...] = (
    version,
    shared_devices,
    addresses_needed,
    device_sets,
)
