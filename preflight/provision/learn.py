"""Inventories of hosts as they are. Pure.

The settings of the inventory that led to the hosts are kept. The addresses of the device NICs come from the devices.
The host NIC, the networks and the ports come from the hosts if that inventory has none. Values that cannot be written
down become comments.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any

from preflight.checks.shared.npu import interface_of
from preflight.facts.parsers.ascend.npu_smi import product_of
from preflight.facts.quote import quote
from preflight.facts.types import ClusterFacts, Hccn, HccnConf, HccnDevice, HostFacts, Network, NpuSmi, Sysctl
from preflight.inventory import InventoryError, dump, parse
from preflight.inventory.dump import text_of
from preflight.inventory.errors import Location
from preflight.inventory.host_tables import Table, apart, together
from preflight.model.cluster import Device, Host, Product
from preflight.model.ports import PortSet
from preflight.model.product_names import known_as
from preflight.provision.recognise import plan_of

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
class _Seen:
    """One host with the devices that it has.

    `unseen`: why they could not be inspected. `open`: why their addresses cannot be written down.
    """

    host: Host
    unseen: str = ""
    open: tuple[str, ...] = ()


def learn(base: Mapping[str, Any], hosts: Sequence[Host], facts: ClusterFacts, product: Product) -> Learned:
    """Return an inventory of `hosts` as `facts` has them.

    `base`: the inventory as TOML has it, which has led to `hosts`. `product`: the servers' product.
    """
    comments: Comments = defaultdict(list)
    host_facts = {host.name: facts.hosts[host.name] for host in hosts}
    states = [_seen(host, host_facts[host.name]) for host in hosts]
    count = Counter(len(state.host.devices) for state in states if not state.unseen).most_common(1)[0][0]
    states = [replace(state, host=_with_devices(state.host, count)) if state.unseen else state for state in states]
    own_nics = {host.name: _own_nic(host, host_facts[host.name]) for host in hosts}
    cluster = {**base["cluster"], "product": product.value, "devices": count, **_mtu(states, facts)}
    if not cluster.get("cidrs"):
        cluster["cidrs"] = sorted({str(address.network) for _, address in own_nics.values() if address})
    kept = {**base, "cluster": cluster}
    kept.pop("device_addresses", None)
    nics = {host.name: own_nics[host.name][0] for host in hosts if host.nic is None and own_nics[host.name][0]}
    if len(set(nics.values())) == 1:
        kept["network"], nics = {"nic": next(iter(nics.values()))}, {}
    if "ports" not in base:
        kept["ports"] = _ports(list(_reached(facts)), comments)
        comments["ports",].append("As the hosts reserve them.")
    tables = apart(base["hosts"], without=_LEARNT)
    kept["hosts"] = [_table(tables[state.host.name], state.host, count, nics) for state in states]
    plan = plan_of(kept, [state.host for state in states])
    if plan:
        kept |= {"device_addresses": plan, "hosts": together(kept["hosts"])}
        comments["device_addresses",].append("The plan that gives the devices what they have.")
    else:
        _write_out(kept, states, comments)
    names = sorted(kept, key=lambda name: (name in ("hosts", "waivers"), _ORDER.index(name) if name in _ORDER else 99))
    document = {name: kept[name] for name in names if kept[name]}
    unseen = (
        f"{state.host.name}: {state.unseen.removeprefix(state.host.name + ': ')}" for state in states if state.unseen
    )
    return Learned(document, dict(comments), tuple(unseen))


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
            return f"npu-smi calls the chips {quote(chip)}; preflight does not support {entry[0]}"
    named = f"npu-smi calls the chips {', '.join(map(quote, chips[:8]))}" if chips else "npu-smi names no chips"
    if len({product_of(chip) for chip in chips} - {None}) > 1:
        return f"{named}, which are of several products; learn the hosts of each product apart, with --hosts"
    return (
        f'{named}, which tells no product; write an inventory with product = "atlas-a2" (or atlas-a1, atlas-a3) under '
        "[cluster], then: preflight learn --inventory hosts.toml -o learned.toml"
    )


def devices_seen(facts: ClusterFacts) -> int:
    return sum(len(host.hccn.devices) for host in _reached(facts) if isinstance(host.hccn, Hccn))


def _reached(facts: ClusterFacts) -> Iterator[HostFacts]:
    return (host for host in facts.hosts.values() if isinstance(host, HostFacts))


def _with_devices(host: Host, count: int) -> Host:
    return replace(host, devices=tuple(Device(index) for index in range(count)))


def _table(table: Table, host: Host, count: int, nics: Mapping[str, str]) -> Table:
    nic = {"nic": nics[host.name]} if host.name in nics else {}
    return {**table, **nic, **({"devices": len(host.devices)} if len(host.devices) != count else {})}


# One host.


def _seen(host: Host, found: object) -> _Seen:
    hccn = found.hccn if isinstance(found, HostFacts) else found
    if not isinstance(hccn, Hccn):
        return _Seen(host, unseen=str(getattr(hccn, "error", "") or getattr(hccn, "summary", "it has no devices")))
    present = [device for device in hccn.devices if "not exist" not in device.address.error]
    devices = tuple(_device(device) for device in present)
    return _Seen(replace(host, devices=devices), open=tuple(text for device in present if (text := _trouble(device))))


def _device(device: HccnDevice) -> Device:
    gateway, detect = (IPv4Address(r.value) if r.value else None for r in (device.gateway, device.detect))
    return Device(device.index, interface_of(device), gateway, detect)


def _trouble(device: HccnDevice) -> str:
    if device.address.error:
        return f"device {device.index}: the address could not be read: {device.address.error}"
    if device.address.value is None:
        return f"device {device.index} has no address"
    return "" if interface_of(device) else f"device {device.index} has no mask for its address {device.address.value}"


def _own_nic(host: Host, found: object) -> tuple[str, IPv4Interface | None]:
    """Return name and address of the NIC by which the host is reached, or else of the NIC with the default route."""
    network = found.network if isinstance(found, HostFacts) else None
    if not isinstance(network, Network):
        return "", None
    routed = {route.interface for route in network.routes if route.destination == "default"}
    addresses = [
        (interface.name, IPv4Interface(text))
        for interface in network.interfaces
        for text in interface.addresses
        if ":" not in text
    ]
    named = [(name, address) for name, address in addresses if str(address.ip) == host.address]
    behind = [(name, address) for name, address in addresses if name in routed]
    return next(iter((*named, *behind)), ("", None))


# The cluster.


def _mtu(seen: Sequence[_Seen], facts: ClusterFacts) -> dict[str, int]:
    """Return the MTU if an operator has set it: the boot files of all hosts have the same value for all devices."""
    values = set()
    for state in seen:
        of_host = facts.hosts[state.host.name]
        conf = of_host.hccn_conf if isinstance(of_host, HostFacts) else None
        entries = conf.entries if isinstance(conf, HccnConf) else {}
        values |= {entries.get(f"mtu_{device.index}", "") for device in state.host.devices}
    value = values.pop() if len(values) == 1 else ""
    return {"device_mtu": int(value)} if value.isdecimal() else {}


def _ports(hosts: Sequence[HostFacts], comments: Comments) -> dict[str, Any]:
    """Return the ports that all hosts reserve, as [ports].

    Ports that are not clearly a job's, or that differ, become comments.
    """
    reserved = [PortSet.parse(host.sysctl.reserved_ports) for host in hosts if isinstance(host.sysctl, Sysctl)]
    if not reserved:
        return {}
    common = reserved[0]
    for ports in reserved[1:]:
        common -= common - ports
    if any(ports != common for ports in reserved):
        comments[()].append(f"The hosts reserve different ports; all of them reserve {common or 'none'}.")
    other_ports = common - _HCCL - _MASTER
    if len(other_ports) > _MOST_JOB_PORTS:
        comments[()].append(f"All hosts reserve these ports, too, which no job seems to want: {other_ports}")
    older = common >= _HCCL_BEFORE_8_0 and bool(_HCCL - common)
    job = str(other_ports).split(",") if 0 < len(other_ports) <= _MOST_JOB_PORTS else []
    return {**({"hccl_count": len(_HCCL_BEFORE_8_0)} if older else {}), **({"job": job} if job else {})}


# Addresses without a plan.


def _write_out(kept: dict[str, Any], seen: Sequence[_Seen], comments: Comments) -> None:
    """Add the addresses host by host; those that no inventory accepts become comments."""
    holders: dict[IPv4Address, list[str]] = defaultdict(list)
    for state in seen:
        for device in state.host.devices:
            if device.address:
                holders[device.address.ip].append(f"{state.host.name} device {device.index}")
    for number, (state, table) in enumerate(zip(seen, kept["hosts"], strict=True)):
        own, comment = _written(state.host)
        why = [state.unseen] if state.unseen else [*state.open, *_shared(state.host, holders)]
        why = why or _refused(kept["cluster"], {**table, **own})
        if not why:
            table |= own
        else:
            comment = [f"Not taken over: {'; '.join(why)}"]
            comment += [f"{key} = {text_of(values)}" for key, values in own.items() if not state.unseen]
        if comment:
            comments["hosts", number] = comment


def _written(host: Host) -> tuple[dict[str, list[str]], list[str]]:
    """Return the host's addresses as the inventory has them, and comments on values that only some devices have."""
    own = {"device_addresses": [str(device.address or "none") for device in host.devices]}
    comment = []
    for key, values in (
        ("gateways", [device.gateway for device in host.devices]),
        ("detect", [device.detect for device in host.devices]),
    ):
        if all(values):
            own[key] = [str(value) for value in values]
        elif any(values):
            comment.append(
                f"Without {key}, which only some devices have: {text_of([str(v or 'none') for v in values])}"
            )
    return own, comment


def _shared(host: Host, holders: Mapping[IPv4Address, list[str]]) -> Iterator[str]:
    for device in host.devices:
        if device.address:
            other_holders = [
                name for name in holders[device.address.ip] if name != f"{host.name} device {device.index}"
            ]
            if other_holders:
                yield f"device {device.index} has {device.address.ip}, as {', '.join(other_holders)}"


def _refused(cluster: Mapping[str, Any], table: Table) -> list[str]:
    """Return why the inventory's own rules refuse one host's addresses; empty if they accept them."""
    try:
        parse(dump({"cluster": {**cluster, "fabric": "switched"}, "hosts": [table]}), Path("learned.toml"))
    except InventoryError as error:
        return [line.split(": ", 2)[-1] for line in str(error).splitlines()[1:]]
    return []
