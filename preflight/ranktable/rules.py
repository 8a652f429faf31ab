"""What a rank table has to be in itself: a function a rule, from the table to its problems. Pure.

The rules are those of HCCL's user guide (cluster_info_config/rank_table_config_*.md) unless a docstring says otherwise.
Where one value is wrong, one rule speaks: each is silent about what another one names.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import pairwise

from preflight.facts.quote import quote
from preflight.model.cluster import Product
from preflight.ranktable.device_sets import device_set_problems
from preflight.ranktable.read import Reading
from preflight.ranktable.super_pods import SUPER_POD_RULES
from preflight.ranktable.types import OLD, Problem, RankedDevice, RankTable, Server, called, spelled

LONGEST_ID = 64  # characters of a server_id
_LAST_DEVICE = 63  # N of /dev/davinciN
_PLACEHOLDER = re.compile(r".*[*<>].*|(x{1,3}|[0-9]{1,3})([.-](x{1,3}|[0-9]{1,3})){3}", re.IGNORECASE)  # or an address


def judge(reading: Reading, product: Product | None = None) -> tuple[Problem, ...]:
    """Everything that is wrong with a table, of its form first. `product`: of its servers, where that is known; some
    rules are a product's."""
    unfinished = tuple(status(reading))
    if reading.table is None and unfinished:  # MindCluster's has nothing else while it is not finished
        return unfinished
    found = [*reading.problems, *unfinished]
    if reading.table is not None:
        for rule in (*_RULES, *SUPER_POD_RULES):
            found += rule(reading.table)
        found += version(reading.table, product)
        found += shared_devices(reading.table, product)
        found += addresses_needed(reading.table, product)
        found += device_sets(reading.table, product)
    return tuple(found)


def status(reading: Reading) -> Iterator[Problem]:
    if reading.status is None and reading.table is not None:
        yield Problem("status", "status is missing: it has to be 'completed'", ("status",))
    elif reading.status not in (None, "completed"):
        text = f"status is {quote(str(reading.status))} instead of 'completed': the table is not finished"
        yield Problem("status", text, ("status",))


_VERSIONS: Mapping[Product, tuple[str, ...]] = {
    Product.ATLAS_A1: (OLD, "1.0"),
    Product.ATLAS_A2: ("1.0",),
    Product.ATLAS_A3: ("1.0", "1.2"),
}


def version(table: RankTable, product: Product | None) -> Iterator[Problem]:
    """The format follows the chip: a table of another one ends in EI0014."""
    known = _VERSIONS.get(product, ()) if product else ()
    if known and table.version not in known:
        what = "a group_list" if table.version == OLD else f"version {table.version}"
        taken = " or ".join(one for one in known if one != OLD)
        yield Problem(
            "version", f"the table is {what}, which {product} does not take, but version {taken}", ("version",)
        )


def counts(table: RankTable) -> Iterator[Problem]:
    """server_count may be left out of version 1.2."""
    for count in table.counts:
        if count.given is None and not (table.version == "1.2" and count.what == "server_count"):
            yield Problem("count", f"{spelled(count.path)} is missing: there are {count.counted}", count.path)
        elif count.given not in (None, count.counted):
            yield Problem("count", f"{spelled(count.path)} is {count.given}, and there are {count.counted}", count.path)


def server_ids(table: RankTable) -> Iterator[Problem]:
    """Pods of a group_list may share a server. That a name of the loopback is no way to tell servers apart is what
    users of hccl_tools.py meet, where /etc/hosts maps the hostname to it."""
    first: dict[str, Server] = {}
    for server in table.servers:
        where = (*server.path, "server_id")
        if not server.id:
            yield Problem("server-id", f"{spelled(server.path)} has no server_id", server.path)
        elif len(server.id) > LONGEST_ID:
            text = f"server_id {quote(server.id)} is longer than {LONGEST_ID} characters"
            yield Problem("server-id", text, where)
        elif server.id in first and table.version != OLD:
            text = f"server_id {server.id} is given twice: {spelled(first[server.id].path)} and {spelled(server.path)}"
            yield Problem("server-id", text, where)
        elif server.id.startswith("127."):
            yield Problem("server-id", f"server_id {server.id} is an address of the loopback", where, warning=True)
        elif _PLACEHOLDER.fullmatch(server.id) and ip(server.id) is None:
            text = f"server_id {quote(server.id)} is no address, but what a manual may have in the place of one"
            yield Problem("server-id", text, where, warning=True)
        first.setdefault(server.id, server)


def device_ids(table: RankTable) -> Iterator[Problem]:
    for server, device in table.placed:
        if device.device_id > _LAST_DEVICE:
            text = f"{called(server, device)}: the last device that a server can have is {_LAST_DEVICE}"
            yield Problem("device", text, (*device.path, "device_id"), rank=device.rank, warning=True)


def host_ips(table: RankTable) -> Iterator[Problem]:
    for server in table.servers:
        if server.host_ip and ip(server.host_ip) is None:
            text = f"server {server.id}: host_ip {quote(server.host_ip)} is no address"
            yield Problem("host-ip", text, (*server.path, "host_ip"))


def ranks(table: RankTable) -> Iterator[Problem]:
    """0 to N-1, each once."""
    named: dict[int, str] = {}
    places = [(device.rank, called(server, device), device.path) for server, device in table.placed]
    places += [(rank.rank, f"rank {rank.rank} (device {rank.device_id})", rank.path) for rank in table.ranks]
    for rank, name, path in places:
        where = (*path, "rank_id")
        if rank in named:
            yield Problem("rank", f"{name}: rank_id {rank} is also that of {named[rank]}", where, rank=rank)
        elif rank >= len(places):
            text = f"{name}: rank_id {rank} is not in 0-{len(places) - 1}, though there are {len(places)} ranks"
            yield Problem("rank", text, where, rank=rank)
        named.setdefault(rank, name)


def interleaved(table: RankTable) -> Iterator[Problem]:
    """Ranks of a server follow each other. Those that are given twice or out of range are another rule's."""
    after: dict[str, int] = {}  # server → its last rank so far
    before: tuple[Server, RankedDevice] | None = None
    for server, device in sound_ranks(table):
        if server.id in after and before and before[0].id != server.id:
            text = (
                f"{called(server, device)}: the ranks of servers must not interleave: server {server.id} has rank "
                f"{after[server.id]}, too, and rank {before[1].rank} between them is of server {before[0].id}"
            )
            yield Problem("interleaved", text, (*device.path, "rank_id"), rank=device.rank)
        after[server.id] = device.rank
        before = server, device


def mindspore_order(table: RankTable) -> Iterator[Problem]:
    """MindSpore's tutorial on distributed training: ranks follow the lexical order of server_id."""
    order = list(dict.fromkeys(server.id for server, _ in sound_ranks(table)))
    if any(interleaved(table)):
        return
    for one, other in pairwise(order):
        if other < one:
            server = next(server for server in table.servers if server.id == other)
            text = f"server {other} has its ranks after server {one}: MindSpore wants the lexical order of server_id"
            yield Problem("order", text, (*server.path, "server_id"), warning=True)
            return


def sound_ranks(table: RankTable) -> list[tuple[Server, RankedDevice]]:
    """In the order of ranks, without those that are given twice or out of range."""
    times, size = Counter(device.rank for _, device in table.placed), table.size
    sound = (pair for pair in table.placed if times[pair[1].rank] == 1 and pair[1].rank < size)
    return sorted(sound, key=lambda pair: pair[1].rank)


def shared_devices(table: RankTable, product: Product | None) -> Iterator[Problem]:
    """Two ranks on one device end with EJ0001, or fight for its port (EI0020), unless each has a device_port; on Atlas
    A1 even so (constraints.md)."""
    for server in table.servers:
        several = Counter(device.device_id for device in server.devices)
        never = product is Product.ATLAS_A1
        for device in tuple(one for one, ranks in several.items() if ranks > 1) if never else shared(server):
            first, *_, last = (one for one in server.devices if one.device_id == device)
            why = "Atlas A1 takes one a device" if never else "they have no device_port of their own"
            text = f"{called(server, last)}: the device is also that of rank {first.rank}, and {why}"
            yield Problem("device", text, (*last.path, "device_id"), rank=last.rank)


def shared(server: Server) -> tuple[int, ...]:
    """Devices that several ranks have without a device_port of their own."""
    ports = Counter((device.device_id, device.device_port) for device in server.devices)
    return tuple(sorted({device for (device, _), ranks in ports.items() if ranks > 1}))


def addresses(table: RankTable) -> Iterator[Problem]:
    """Each an address, of one device alone, and all of one family."""
    first: dict[str, tuple[Server, RankedDevice]] = {}
    families: dict[int, tuple[Server, RankedDevice]] = {}
    for server, device in table.placed:
        name, where = called(server, device), (*device.path, "device_ip")
        address = device.device_ip and ip(device.device_ip)
        if not device.device_ip:
            continue
        if not address:
            text = f"{name}: device_ip {quote(device.device_ip)} is no address"
            yield Problem("device-ip", text, where, rank=device.rank)
            continue
        other = first.setdefault(str(address), (server, device))
        if (other[0].id, other[1].device_id) != (server.id, device.device_id):
            text = f"{name}: device_ip {device.device_ip} is also that of {called(*other)}"
            yield Problem("device-ip", text, where, rank=device.rank)
        families.setdefault(address.version, (server, device))
        if address.version != next(iter(families)):
            text = f"{name}: device_ip {device.device_ip} is of IPv{address.version}, that of " + (
                f"{called(*next(iter(families.values())))} of IPv{next(iter(families))}: all are of one family"
            )
            yield Problem("device-ip", text, where, rank=device.rank)


def ip(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def addresses_needed(table: RankTable, product: Product | None) -> Iterator[Problem]:
    """A group_list and Atlas A1 always want device_ip; version 1.0 with several servers, version 1.2 with several
    super-pods."""
    if why := why_addresses(table.version, len(table.servers), len(table.super_pods), product):
        for server, device in table.placed:
            if not device.device_ip:
                yield Problem("device-ip", f"{called(server, device)} has no device_ip, which {why} have to have",
                              device.path, rank=device.rank)  # fmt: skip


def why_addresses(version: str, servers: int, super_pods: int, product: Product | None) -> str:
    """Whose devices have to have an address in the table; empty where they need not."""
    if version == OLD:
        return "those of a group_list"
    if product is Product.ATLAS_A1:
        return "those of Atlas A1"
    if version == "1.0" and servers > 1:
        return "devices of several servers"
    return "devices of several super-pods" if version == "1.2" and super_pods > 1 else ""


def ports(table: RankTable) -> Iterator[Problem]:
    """Each in 1-65535; host_port differs between the ranks of a server, the main and the backup port of a NIC, too."""
    for server in table.servers:
        hosts: dict[str, RankedDevice] = {}
        main = {device.device_ip: device for device in server.devices if device.device_ip and device.device_port}
        for device in server.devices:
            for key in ("device_port", "host_port", "backup_device_port"):
                port = getattr(device, key)
                if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
                    text = f"{called(server, device)}: {key} {quote(port)} is not in 1-65535"
                    yield Problem("port", text, (*device.path, key), rank=device.rank)
            other = hosts.setdefault(device.host_port, device)
            if device.host_port and other is not device:
                text = f"{called(server, device)}: host_port {device.host_port} is also that of rank {other.rank}"
                yield Problem("port", text, (*device.path, "host_port"), rank=device.rank)
            owner = main.get(device.backup_device_ip)
            if owner and device.backup_device_port == owner.device_port:
                text = (
                    f"{called(server, device)}: backup_device_port {device.backup_device_port} is also the device_port "
                    f"of rank {owner.rank}, whose device_ip {owner.device_ip} is the backup"
                )
                yield Problem("port", text, (*device.path, "backup_device_port"), rank=device.rank)


def addresses_of_ranks(table: RankTable) -> Iterator[Problem]:
    """Version 2.0, known from the manual alone: so only warnings."""
    first: dict[tuple[str, str], int] = {}
    for rank in table.ranks:
        for address in rank.addresses:
            where = (*address.path, "addr")
            family = {"IPV4": 4, "IPV6": 6}.get(address.type)
            known = ip(address.value)
            if not address.value or (family and (known is None or known.version != family)):
                text = f"rank {rank.rank}: addr {quote(address.value)} is no address of type {quote(address.type)}"
                yield Problem("addr", text, where, rank=rank.rank, warning=True)
            elif (other := first.setdefault((address.type, address.value), rank.rank)) != rank.rank:
                text = f"rank {rank.rank}: addr {quote(address.value)} is also one of rank {other}"
                yield Problem("addr", text, where, rank=rank.rank, warning=True)


def empty(table: RankTable) -> Iterator[Problem]:
    if not table.size:
        key = {"2.0": "rank_list", OLD: "group_list"}.get(table.version, "server_list")
        yield Problem("rank", "the table names no device", (key,))
    for server in table.servers:
        if not server.devices and table.size:
            yield Problem("rank", f"server {server.id} has no device", (*server.path, "device"))


def device_sets(table: RankTable, product: Product | None) -> Iterator[Problem]:
    """Servers of a group_list are pods, which may have any part of one."""
    if table.version != OLD:
        devices = [(one, tuple(sorted({device.device_id for device in one.devices}))) for one in table.servers]
        sets = tuple((server.path, f"server {server.id}", ids) for server, ids in devices if ids)
        yield from device_set_problems(product, sets)


_RULES: tuple[Callable[[RankTable], Iterable[Problem]], ...] = (
    counts, empty, server_ids, device_ids, host_ips, ranks, interleaved, mindspore_order, addresses, ports,
    addresses_of_ranks,
)  # fmt: skip
