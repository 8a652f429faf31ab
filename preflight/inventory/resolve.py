"""A well-formed document → the Cluster, every host and device written out; and what contradicts itself in it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from preflight.inventory.errors import Location, Problem
from preflight.inventory.hostset import expand
from preflight.inventory.schema import Document, FourSubnets, HostTable, OneSubnet
from preflight.model.addressing import refused_range
from preflight.model.cluster import Bastion, Cluster, Device, Fabric, Host, ProbeSettings, Product, Ssh, Waiver
from preflight.model.ports import PortSet

_BASTION = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_BACKEND = {Product.NVIDIA: "nccl", Product.CPU: "gloo"}
_DEADLINE = {"hccl": 160.0}  # seconds: HCCL gives up after HCCL_CONNECT_TIMEOUT + 20 s, 140 s by default
_LAST_PORT = 65535


@dataclass
class _Work:
    """A document being resolved: problems are collected, not raised, so that all are told at once."""

    document: Document
    folder: Path
    problems: list[Problem] = field(default_factory=list)

    def bad(self, at: Location, text: str, first: Location | None = None) -> None:
        problem = Problem(at, text, first)
        if problem not in self.problems:
            self.problems.append(problem)


def resolve(document: Document, folder: Path) -> tuple[Cluster, list[Problem]]:
    """The cluster, and every contradiction found on the way; the cluster is meant to be used only without any.

    `folder`: where relative paths of keys start.
    """
    work = _Work(document, folder)
    _check_settings(work)
    named = _named_hosts(work)
    hosts = []
    placed = 0  # devices of the hosts before
    for position, (index, table, name, address) in enumerate(named):
        devices = tuple(_devices(work, index, table, position, placed))
        placed += len(devices)
        hosts.append(Host(name, address, _ssh(work, table), table.nic or document.network.nic, devices))
    hosts = _with_neighbours(document, hosts)
    _check_addresses(work, named, hosts)
    ports = document.ports
    last = min(ports.hccl_base + ports.hccl_count - 1, _LAST_PORT)
    probe = document.probe
    backend = probe.backend or _BACKEND.get(document.cluster.product, "hccl")
    cluster = Cluster(
        name=document.cluster.name,
        product=document.cluster.product,
        hosts=tuple(hosts),
        cidrs=tuple(document.cluster.cidrs),
        fabric=document.cluster.fabric,
        hccl_ports=PortSet.of([(ports.hccl_base, last)]),
        job_ports=ports.job,
        firewall=document.firewall.policy,
        probe=ProbeSettings(
            python=probe.python,
            setup=probe.setup,
            wrapper=tuple(probe.exec),
            user=probe.user,
            backend=backend,
            sizes=tuple(probe.sizes),
            step_deadline=probe.step_deadline or _DEADLINE.get(backend, 60.0),
            idle=probe.idle,
        ),
        waivers=tuple(Waiver(w.check, w.host, w.owner, w.reason, w.expires) for w in document.waivers),
    )
    known = {host.name for host in hosts} | {"*"}
    for index, waiver in enumerate(document.waivers):
        if waiver.host not in known:
            work.bad(("waivers", index, "host"), f'{waiver.host!r} is no host of this inventory; "*" means all')
    return cluster, work.problems


def _check_settings(work: _Work) -> None:
    document, product = work.document, work.document.cluster.product
    ports = document.ports
    if ports.hccl_base + ports.hccl_count - 1 > _LAST_PORT:
        work.bad(("ports", "hccl_base"), f"{ports.hccl_base} + {ports.hccl_count} ports ends above 65535")
    overlap = PortSet.of([(ports.hccl_base, min(ports.hccl_base + ports.hccl_count - 1, _LAST_PORT))])
    if product.is_npu and any(port in overlap for port in ports.job):
        work.bad(("ports", "job"), f"{ports.job} overlaps the HCCL ports {overlap}")
    plan = document.device_addresses
    if plan and not product.is_npu:
        work.bad(("device_addresses",), f"{product} devices have no addresses of their own; remove this table")
    if isinstance(plan, FourSubnets) and product not in (Product.ATLAS_A1,):
        work.bad(("device_addresses", "plan"), f'four-subnets is the rule of atlas-a1; {product} takes "one-subnet"')
    if plan and document.cluster.fabric is Fabric.DIRECT:
        gateways = plan.gateways if isinstance(plan, FourSubnets) else plan.gateway
        if gateways:
            key = "gateways" if isinstance(plan, FourSubnets) else "gateway"
            work.bad(("device_addresses", key), "a direct fabric is a fibre between two servers: it has no gateway")
    if plan and plan.detect not in (None, "", "gateway", "next-host"):
        try:
            IPv4Address(plan.detect)
        except ValueError:
            work.bad(
                ("device_addresses", "detect"), f'{plan.detect!r} is neither "gateway", "next-host" nor an address'
            )
    for where, ssh in (
        (("ssh",), document.ssh),
        *((("hosts", i, "ssh"), h.ssh) for i, h in enumerate(document.hosts)),
    ):
        if ssh.bastion and not _BASTION.fullmatch(ssh.bastion):
            work.bad((*where, "bastion"), f"{ssh.bastion!r} should look like user@jump.example:22")


def _named_hosts(work: _Work) -> list[tuple[int, HostTable, str, str]]:
    """(table index, table, name, address) of every host; duplicates name both places."""
    named: list[tuple[int, HostTable, str, str]] = []
    for index, table in enumerate(work.document.hosts):
        try:
            names = expand(table.name)
        except ValueError as error:
            work.bad(("hosts", index, "name"), str(error))
            continue
        try:
            addresses = expand(table.address) if table.address else names
        except ValueError as error:
            work.bad(("hosts", index, "address"), str(error))
            continue
        if len(names) != len(addresses):
            work.bad(("hosts", index, "address"), f"{len(addresses)} addresses for {len(names)} names")
            continue
        if table.device_addresses is not None and len(names) > 1:
            work.bad(
                ("hosts", index, "device_addresses"), f"written out for {len(names)} hosts at once; one table a host"
            )
        named += [(index, table, name, address) for name, address in zip(names, addresses, strict=True)]
    for what, column in (("name", 2), ("address", 3)):
        first: dict[str, int] = {}
        for entry in named:
            value, index = str(entry[column]), entry[0]
            if value in first:
                key = what if what == "name" or work.document.hosts[index].address else "name"
                work.bad(("hosts", index, key), f"{what} {value} is used twice", ("hosts", first[value], key))
            first.setdefault(value, index)
    if work.document.cluster.fabric is Fabric.DIRECT and len(named) != 2:
        work.bad(("cluster", "fabric"), f"direct means a fibre between two servers; the inventory has {len(named)}")
    return named


def _ssh(work: _Work, table: HostTable) -> Ssh:
    """The host's own settings over the cluster's."""
    common, own = work.document.ssh, table.ssh

    merged = common.model_copy(update=own.model_dump(exclude_none=True))
    jump = _BASTION.fullmatch(merged.bastion) if merged.bastion else None
    bastion = None
    if jump:
        bastion = Bastion(jump["host"].strip("[]"), jump["user"], int(jump["port"]) if jump["port"] else None)
    return Ssh(
        user=merged.user,
        port=merged.port,
        key=_path(work, merged.key),
        known_hosts=_path(work, merged.known_hosts),
        bastion=bastion,
        sudo=bool(merged.sudo),
        transport=merged.transport or "fabric",
    )


def _path(work: _Work, text: str | None) -> str | None:
    return str((work.folder / Path(text).expanduser()).absolute()) if text else None


def _devices(work: _Work, index: int, table: HostTable, position: int, placed: int) -> Iterator[Device]:
    document = work.document
    count = table.devices
    if count is None:
        count = document.cluster.devices
    if count is None:
        count = len(table.device_addresses) if table.device_addresses else 8 if document.cluster.product.is_npu else 0
    if table.device_addresses is not None:
        yield from _written_out(work, index, table, count)
        return
    plan = document.device_addresses
    if isinstance(plan, FourSubnets):
        if count > 8:
            work.bad(("device_addresses", "plan"), f"four-subnets places 8 devices a host, hosts[{index}] has {count}")
        yield from _in_four_subnets(work, plan, position, min(count, 8))
    elif isinstance(plan, OneSubnet):
        yield from _in_one_subnet(work, plan, placed, count)
    else:
        yield from (Device(device) for device in range(count))


def _written_out(work: _Work, index: int, table: HostTable, count: int) -> Iterator[Device]:
    addresses = table.device_addresses or []
    for key in ("device_addresses", "gateways", "detect"):
        values = getattr(table, key)
        if values is not None and len(values) != count:
            work.bad(("hosts", index, key), f"{len(values)} entries for {count} devices")
            return
    for device, address in enumerate(addresses):
        yield Device(
            device,
            address,
            table.gateways[device] if table.gateways else None,
            table.detect[device] if table.detect else None,
        )


def _in_four_subnets(work: _Work, plan: FourSubnets, position: int, count: int) -> Iterator[Device]:
    for device in range(count):
        subnet = plan.subnets[device % 4]
        address = int(subnet.network_address) + plan.first + 2 * position + device // 4
        if address >= int(subnet.broadcast_address):
            work.bad(("device_addresses", "subnets"), f"{subnet} is full: no room for host {position + 1}")
            return
        gateway = plan.gateways[device % 4] if plan.gateways else None
        yield Device(device, IPv4Interface((address, subnet.prefixlen)), gateway, _detect(plan.detect, gateway))


def _in_one_subnet(work: _Work, plan: OneSubnet, placed: int, count: int) -> Iterator[Device]:
    start = int(plan.first) if plan.first else int(plan.subnet.network_address) + 11
    for device in range(count):
        address = start + placed + device
        if not int(plan.subnet.network_address) < address < int(plan.subnet.broadcast_address):
            work.bad(("device_addresses", "subnet"), f"{plan.subnet} has no room for device {placed + device + 1}")
            return
        interface = IPv4Interface((address, plan.subnet.prefixlen))
        yield Device(device, interface, plan.gateway, _detect(plan.detect, plan.gateway))


def _detect(wanted: str | None, gateway: IPv4Address | None) -> IPv4Address | None:
    """The plan's word as an address; "next-host" is filled in when all hosts are known."""
    if wanted == "gateway":
        return gateway
    try:
        return IPv4Address(wanted or "")
    except ValueError:
        return None  # not said, "next-host", or told already by _check_settings


def _with_neighbours(document: Document, hosts: list[Host]) -> list[Host]:
    """`detect = "next-host"`, and a direct fabric where nothing is said: the same device of the next host."""
    plan = document.device_addresses
    asked = plan is not None and plan.detect == "next-host"
    direct = document.cluster.fabric is Fabric.DIRECT and (plan is None or plan.detect is None)
    if len(hosts) < 2 or not (asked or direct):
        return hosts
    result = []
    for position, host in enumerate(hosts):
        following = hosts[(position + 1) % len(hosts)].devices
        peers = {device.index: device.address.ip for device in following if device.address}
        devices = (replace(d, detect=d.detect or peers.get(d.index)) if d.address else d for d in host.devices)
        result.append(replace(host, devices=tuple(devices)))
    return result


def _check_addresses(work: _Work, named: list[tuple[int, HostTable, str, str]], hosts: list[Host]) -> None:
    """Addresses that cannot be; of a plan that goes wrong the same way many times only the first is told."""
    product = work.document.cluster.product
    of_hosts = {host.address: host.name for host in hosts}
    seen: dict[IPv4Address, tuple[str, Location]] = {}
    told: set[tuple[str, Location]] = set()
    for (index, table, _, _), host in zip(named, hosts, strict=True):
        own = table.device_addresses is not None
        at: Location = ("hosts", index, "device_addresses") if own else ("device_addresses",)
        for device in host.devices:
            if device.address is None:
                continue
            subject = f"{host.name} device {device.index}"
            for kind, text in _impossible(product, of_hosts, device, device.address):
                if own or (kind, at) not in told:
                    work.bad(at, f"{subject}: {text}")
                told.add((kind, at))
            holder, place = seen.setdefault(device.address.ip, (subject, at))
            if holder != subject:
                work.bad(at, f"{subject}: address {device.address.ip} is used twice, by {holder} too", place)


def _impossible(
    product: Product, of_hosts: dict[str, str], device: Device, address: IPv4Interface
) -> Iterator[tuple[str, str]]:
    """(kind, sentence) of everything wrong with one device's address by itself."""
    ip, network = address.ip, address.network
    if str(ip) in of_hosts:
        yield "host", f"{ip} is the address of host {of_hosts[str(ip)]}"
    if network.prefixlen < 31 and ip in (network.network_address, network.broadcast_address):
        yield "edge", f"{ip} is the network or broadcast address of {network}"
    if refused := refused_range(product, ip):
        yield "refused", f"hccn_tool refuses {ip}: the driver uses {refused} itself"
    if device.gateway == ip:
        yield "own", f"{ip} is the gateway's own address"
    elif device.gateway and device.gateway not in network:
        yield "gateway", f"gateway {device.gateway} is not in {network}"
