"""Inventories of hosts as they are. Pure.

The settings of the inventory that led to the hosts are kept. The addresses of the device NICs come from the devices.
The host NIC, the networks and the ports come from the hosts if that inventory has none. Values that cannot be written
down become comments.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any

from preflight.checks.shared.npu import interface_of
from preflight.facts.parsers.ascend.npu_smi import product_of
from preflight.facts.types import ClusterFacts, Hccn, HccnConf, HccnDevice, HostFacts, Network, NpuSmi, Sysctl
from preflight.grouping import grouped
from preflight.inventory import InventoryError, dump, parse
from preflight.inventory.dump import text_of
from preflight.inventory.errors import Location
from preflight.inventory.host_tables import Table, apart, together
from preflight.model.cluster import Device, Host, Product
from preflight.model.ports import PortSet
from preflight.model.product_names import known_as
from preflight.model.text import quote
from preflight.provision.recognise import plan_of
from preflight.rules.firewall.rules import common

_ORDER = ("cluster", "ssh", "network", "device_addresses", "ports", "firewall", "probe")  # then others, hosts last
_LEARNT = ("devices", "slot", "device_addresses", "gateways", "detect")  # of a host
_HCCL, _HCCL_BEFORE_8_0 = PortSet.parse("60000-60031"), PortSet.parse("60000-60015")
_MASTER = PortSet.parse("29500")
_MOST_JOB_PORTS = 64  # more reserved ports than that are not a job's

Comments = dict[Location, list[str]]


@dataclass(frozen=True)
class Learned:
    """An inventory, as `document` and `comments` for `dump`. `unseen`: hosts of which nothing could be learnt."""

    document: dict[str, Any]
    comments: Comments
    unseen: tuple[str, ...]


@dataclass(frozen=True)
class _InspectedHost:
    """One host with the devices that it has.

    `error`: why they could not be inspected. `faults`: why their addresses cannot be written down.
    """

    host: Host
    error: str = ""
    faults: tuple[str, ...] = ()


def learn(base: Mapping[str, Any], hosts: Sequence[Host], facts: ClusterFacts, product: Product) -> Learned:
    """Return an inventory of `hosts` as `facts` has them.

    `base`: the inventory as TOML has it, which has led to `hosts`. `product`: the servers' product.
    """
    comments: Comments = defaultdict(list)
    inspected, count = _inspect(hosts, facts)
    own_nics = {host.name: _own_nic(host, facts.hosts[host.name]) for host in hosts}
    cluster = {**base["cluster"], "product": product.value, "devices": count, **_mtu(inspected, facts)}
    if not cluster.get("cidrs"):
        cluster["cidrs"] = sorted({str(address.network) for _, address in own_nics.values() if address})
    learnt = {**base, "cluster": cluster}
    learnt.pop("device_addresses", None)
    nics = {host.name: nic for host in hosts if host.nic is None and (nic := own_nics[host.name][0])}
    if len(set(nics.values())) == 1:
        learnt["network"], nics = {"nic": next(iter(nics.values()))}, {}
    if "ports" not in base:
        learnt["ports"] = _ports(list(_reached(facts)), comments)
        comments["ports",].append("The ports that the hosts reserve.")
    learnt["hosts"] = _host_tables(base, inspected, count, nics)
    _add_addresses(learnt, inspected, comments)
    return Learned(_ordered(learnt), dict(comments), tuple(_not_inspected(inspected)))


def _ordered(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables that hold anything, in the order of an inventory."""
    names = sorted(
        document, key=lambda name: (name in ("hosts", "waivers"), _ORDER.index(name) if name in _ORDER else 99)
    )
    return {name: document[name] for name in names if document[name]}


def _not_inspected(inspected: Sequence[_InspectedHost]) -> Iterator[str]:
    for item in inspected:
        if item.error:
            yield f"{item.host.name}: {item.error.removeprefix(item.host.name + ': ')}"


def asked(base: Mapping[str, Any], hosts: Sequence[Host]) -> list[Host]:
    """Return the hosts with the devices that `base` names.

    Devices that only the product's default gives are a guess, so those hosts are asked which devices they have.
    """
    tables = apart(base["hosts"])
    named = {name for name, table in tables.items() if {"devices", "device_addresses"} & table.keys()}
    everywhere = "devices" in base["cluster"]
    return [host if everywhere or host.name in named else replace(host, devices=()) for host in hosts]


def product_seen(facts: ClusterFacts) -> Product | None:
    """Return the product that the chips' names give, None if they give none or several."""
    products = {product_of(name) for name in chips_seen(facts)}
    return products.pop() if len(products) == 1 else None


def chips_seen(facts: ClusterFacts) -> tuple[str, ...]:
    """Return the names of all chips as npu-smi has them, each once."""
    chips = [chip for host in _reached(facts) if isinstance(host.npu_smi, NpuSmi) for chip in host.npu_smi.chips]
    return tuple(sorted({chip.name for chip in chips}))


def why_no_product(facts: ClusterFacts) -> str:
    """Return the sentence about chips that name no product, or several; and what to type instead."""
    chips = chips_seen(facts)
    for chip in chips:
        entry = known_as(chip)
        if entry and entry[1] is None and product_of(chip) is None:
            return f"npu-smi reports the chip {quote(chip)}. preflight does not support {entry[0]}."
    named = f"npu-smi reports the chips {', '.join(map(quote, chips[:8]))}" if chips else "npu-smi reports no chips"
    if len({product_of(chip) for chip in chips} - {None}) > 1:
        return f"{named}, which belong to several products. Learn the hosts of each product separately, with --hosts."
    return (
        f'{named}, so the product is unknown. Set product = "atlas-a2" (or atlas-a1, atlas-a3) under [cluster] of an '
        "inventory, then run: preflight learn --inventory hosts.toml -o learned.toml"
    )


def devices_seen(facts: ClusterFacts) -> int:
    return sum(len(host.hccn.devices) for host in _reached(facts) if isinstance(host.hccn, Hccn))


def _reached(facts: ClusterFacts) -> Iterator[HostFacts]:
    return (host for host in facts.hosts.values() if isinstance(host, HostFacts))


def _host_tables(
    base: Mapping[str, Any], inspected: Sequence[_InspectedHost], count: int, nics: Mapping[str, str]
) -> list[Table]:
    tables = apart(base["hosts"], without=_LEARNT)
    return [_table(tables[item.host.name], item.host, count, nics) for item in inspected]


def _table(table: Table, host: Host, count: int, nics: Mapping[str, str]) -> Table:
    nic = {"nic": nics[host.name]} if host.name in nics else {}
    return {**table, **nic, **({"devices": len(host.devices)} if len(host.devices) != count else {})}


# One host.


def _inspect(hosts: Sequence[Host], facts: ClusterFacts) -> tuple[list[_InspectedHost], int]:
    """Return each host with its devices, and the usual number of devices, which hosts that did not answer get, too."""
    inspected = [_inspect_host(host, facts.hosts[host.name]) for host in hosts]
    count = Counter(len(item.host.devices) for item in inspected if not item.error).most_common(1)[0][0]
    devices = tuple(Device(index) for index in range(count))
    return [
        replace(item, host=replace(item.host, devices=devices)) if item.error else item for item in inspected
    ], count


def _inspect_host(host: Host, host_facts: object) -> _InspectedHost:
    hccn = host_facts.hccn if isinstance(host_facts, HostFacts) else host_facts
    if not isinstance(hccn, Hccn):
        error = getattr(hccn, "error", "") or getattr(hccn, "summary", "no devices")
        return _InspectedHost(host, error=str(error))
    present = [device for device in hccn.devices if "not exist" not in device.address.error]
    devices = tuple(map(_device, present))
    return _InspectedHost(replace(host, devices=devices), faults=tuple(filter(None, map(_trouble, present))))


def _device(device: HccnDevice) -> Device:
    gateway, detect = (IPv4Address(r.value) if r.value else None for r in (device.gateway, device.detect))
    return Device(device.index, interface_of(device), gateway, detect)


def _trouble(device: HccnDevice) -> str:
    if device.address.error:
        return f"device {device.index}: cannot read the address: {device.address.error}"
    if device.address.value is None:
        return f"device {device.index} has no address"
    return (
        "" if interface_of(device) else f"device {device.index} has no netmask for its address {device.address.value}"
    )


def _own_nic(host: Host, host_facts: object) -> tuple[str, IPv4Interface | None]:
    """Return name and address of the NIC by which the host is reached, or else of the NIC with the default route."""
    network = host_facts.network if isinstance(host_facts, HostFacts) else None
    if not isinstance(network, Network):
        return "", None
    routed = {route.interface for route in network.routes if route.destination == "default"}
    nics = list(_ipv4_addresses(network))
    by_address = [nic for nic in nics if str(nic[1].ip) == host.address]
    by_route = [nic for nic in nics if nic[0] in routed]
    return next(iter((*by_address, *by_route)), ("", None))


def _ipv4_addresses(network: Network) -> Iterator[tuple[str, IPv4Interface]]:
    for interface in network.interfaces:
        for text in interface.addresses:
            if ":" not in text:
                yield interface.name, IPv4Interface(text)


# The cluster.


def _mtu(inspected: Sequence[_InspectedHost], facts: ClusterFacts) -> dict[str, int]:
    """Return the MTU if an operator has set it: the boot files of all hosts have the same value for all devices."""
    values = set()
    for item in inspected:
        host_facts = facts.hosts[item.host.name]
        conf = host_facts.hccn_conf if isinstance(host_facts, HostFacts) else None
        entries = conf.entries if isinstance(conf, HccnConf) else {}
        values |= {entries.get(f"mtu_{device.index}", "") for device in item.host.devices}
    value = values.pop() if len(values) == 1 else ""
    return {"device_mtu": int(value)} if value.isdecimal() else {}


def _ports(hosts: Sequence[HostFacts], comments: Comments) -> dict[str, Any]:
    """Return the ports that all hosts reserve, as [ports].

    Ports that are not clearly a job's, or that differ, become comments.
    """
    reserved = [PortSet.parse(host.sysctl.reserved_ports) for host in hosts if isinstance(host.sysctl, Sysctl)]
    if not reserved:
        return {}
    shared = reduce(common, reserved)
    if set(reserved) != {shared}:
        comments[()].append(f"The hosts reserve different ports. Ports that all hosts reserve: {shared or 'none'}.")
    table: dict[str, Any] = {}
    if shared >= _HCCL_BEFORE_8_0 and _HCCL - shared:
        table["hccl_count"] = len(_HCCL_BEFORE_8_0)
    other_ports = shared - _HCCL - _MASTER
    if len(other_ports) > _MOST_JOB_PORTS:
        comments[()].append(f"All hosts also reserve these ports, which no job seems to use: {other_ports}")
    elif other_ports:
        table["job"] = str(other_ports).split(",")
    return table


# Addresses without a plan.


def _add_addresses(document: dict[str, Any], inspected: Sequence[_InspectedHost], comments: Comments) -> None:
    """Add the plan that gives the devices their addresses, or the addresses host by host if there is no such plan."""
    plan = plan_of(document, [item.host for item in inspected])
    if plan is None:
        _write_out(document, inspected, comments)
    else:
        document |= {"device_addresses": plan, "hosts": together(document["hosts"])}
        comments["device_addresses",].append("The plan that results in the current addresses.")


def _write_out(document: dict[str, Any], inspected: Sequence[_InspectedHost], comments: Comments) -> None:
    """Add the addresses host by host; those that no inventory accepts become comments."""
    holders = _holders(inspected)
    for number, (item, table) in enumerate(zip(inspected, document["hosts"], strict=True)):
        own, comment = _written(item.host)
        why = [item.error] if item.error else [*item.faults, *_shared(item.host, holders)]
        why = why or _refused(document["cluster"], {**table, **own})
        if not why:
            table |= own
        else:
            comment = [f"Not learned: {', '.join(why)}"]
            comment += [f"{key} = {text_of(values)}" for key, values in own.items() if not item.error]
        if comment:
            comments["hosts", number] = comment


def _holders(inspected: Sequence[_InspectedHost]) -> dict[IPv4Address, list[str]]:
    """Return address → the devices that have it."""
    return grouped(
        (device.address.ip, f"{item.host.name} device {device.index}")
        for item in inspected
        for device in item.host.devices
        if device.address
    )


def _written(host: Host) -> tuple[dict[str, list[str]], list[str]]:
    """Return the host's addresses as the inventory has them, and comments on values that only some devices have."""
    own = {"device_addresses": _texts(device.address for device in host.devices)}
    comment = []
    gateways, detects = ([device.gateway for device in host.devices], [device.detect for device in host.devices])
    for key, values in (("gateways", gateways), ("detect", detects)):
        if all(values):
            own[key] = _texts(values)
        elif any(values):
            comment.append(f"{key} is left out, since only some devices have it: {text_of(_texts(values))}")
    return own, comment


def _texts(values: Iterable[object]) -> list[str]:
    return [str(value or "none") for value in values]


def _shared(host: Host, holders: Mapping[IPv4Address, list[str]]) -> Iterator[str]:
    for device in host.devices:
        if device.address:
            other_holders = [
                name for name in holders[device.address.ip] if name != f"{host.name} device {device.index}"
            ]
            if other_holders:
                yield f"device {device.index} has the same address {device.address.ip} as {', '.join(other_holders)}"


def _refused(cluster: Mapping[str, Any], table: Table) -> list[str]:
    """Return why the inventory's own rules refuse one host's addresses; empty if they accept them."""
    try:
        parse(dump({"cluster": {**cluster, "fabric": "switched"}, "hosts": [table]}), Path("learned.toml"))
    except InventoryError as error:
        return [line.split(": ", 2)[-1] for line in str(error).splitlines()[1:]]
    return []
