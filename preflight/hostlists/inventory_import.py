"""A host list as the tables of an inventory, with notes on assumptions. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from preflight.hostlists.host_list import HostList, ListedHost
from preflight.inventory.host_tables import Table, apart, together
from preflight.model.addressing import refused_range, refused_ranges
from preflight.model.cluster import Product
from preflight.model.errors import UsageError
from preflight.ranktable.types import Path

MOST_DEVICES = 64
_USUAL_DEVICES = 8
_USUAL_PRODUCT = Product.ATLAS_A2
_SSH_KEYS = ("user", "port", "key", "bastion", "sudo")
_DEVICE_KEYS = ("device_addresses", "gateways", "detect")  # of a host, with a value for each device


@dataclass(frozen=True)
class ImportOptions:
    """The caller's answers to questions that a list leaves open.

    `prefix`: the length of the devices' netmask, or 0 to leave their addresses out.
    """

    name: str = ""
    product: str = ""
    user: str = ""
    devices: int | None = None
    prefix: int | None = None


class AddressError(UsageError):
    """A device cannot have the address at `path` of the list."""

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(sentence)
        self.path = path


def by_name(host_list: HostList, base: Mapping[str, Any] | None) -> HostList:
    """Replace addresses that the list has for names by the names in `base`."""
    tables = apart(base["hosts"]) if base else {}
    names = {table["address"]: name for name, table in tables.items() if "address" in table}
    listed = {host.name for host in host_list.hosts}
    new_names = {name: names[name] for name in listed if name in names}
    if not listed.isdisjoint(new_names.values()):
        return host_list
    hosts = tuple(replace(host, name=new_names.get(host.name, host.name)) for host in host_list.hosts)
    return replace(host_list, hosts=hosts)


def document_of(
    host_list: HostList, options: ImportOptions, base: Mapping[str, Any] | None = None
) -> tuple[Table, list[str]]:
    """Return the tables, and sentences on assumptions.

    `base` is an inventory as TOML has it. Its values are kept unless the list has others, but not its other hosts.
    Raises UsageError if an option is missing, AddressError for an address that no device can have.
    """
    notes = list(host_list.notes)
    kept = dict(base or {})
    base_hosts = apart(kept.pop("hosts", ()))
    old = [base_hosts.get(host.name, {}) for host in host_list.hosts]
    cluster = _cluster(kept.pop("cluster", {}), host_list, options, notes)
    counts = _with_common_count(cluster, _device_counts(cluster, host_list, options, old, notes))
    prefix = _prefix(host_list, options, Product(cluster["product"]), notes)
    if prefix:
        _refuse_addresses(host_list, cluster, kept.get("device_addresses", {}))
    common_ssh, own_ssh = _ssh_tables(host_list, options, old)
    tables = []
    for host, before, count, ssh in zip(host_list.hosts, old, counts, own_ssh, strict=True):
        device_values = _device_values(host, prefix, before, cluster["devices"] if count is None else count)
        tables.append(_host_table(host, before, count, ssh) | device_values)
    notes += _left_out_values(old, tables)
    document: Table = {"cluster": cluster}
    if common_ssh or "ssh" in kept:
        document["ssh"] = kept.pop("ssh", {}) | common_ssh
    waivers = _waivers(kept.pop("waivers", []), host_list, notes)
    return {**document, **kept, "hosts": together(tables), **waivers}, notes


def _cluster(base: Table, host_list: HostList, options: ImportOptions, notes: list[str]) -> Table:
    product = options.product or base.get("product") or host_list.product
    if not product:
        product = _USUAL_PRODUCT.value
        notes.append(f"the product was assumed to be {product}. Set another one with --product")
    name = options.name or base.get("name") or host_list.name or "imported"
    superpod = {"superpod": True} if host_list.superpod and product == Product.ATLAS_A3 else {}
    return {**base, "name": name, "product": product, **superpod}


def _device_counts(
    cluster: Table, host_list: HostList, options: ImportOptions, old: Sequence[Table], notes: list[str]
) -> list[int | None]:
    """Return the number of devices of every host, None for that of [cluster] in the base."""
    hosts = host_list.hosts
    if options.devices is not None:
        if any(host.slots not in (None, options.devices) for host in hosts):
            notes.append(f"slots in the list were ignored in favour of --devices {options.devices}")
        return [options.devices] * len(hosts)
    _check_slots(host_list, notes)
    counts = [
        before.get("devices") if host.slots is None else host.slots for host, before in zip(hosts, old, strict=True)
    ]
    if None in counts and "devices" not in cluster:
        return _assume_counts(cluster["product"], hosts, counts, notes)
    return counts


def _assume_counts(
    product: str, hosts: Sequence[ListedHost], counts: Sequence[int | None], notes: list[str]
) -> list[int | None]:
    """Return the counts, with the usual number of devices for hosts without one."""
    if product == Product.CPU:
        return [count or 0 for count in counts]
    names = [host.name for host, count in zip(hosts, counts, strict=True) if count is None]
    which = "" if len(names) == len(counts) else f" without slots ({_first_and_number(names)})"
    notes.append(f"hosts{which} were assumed to have {_USUAL_DEVICES} devices each. Set the number with --devices")
    return [_USUAL_DEVICES if count is None else count for count in counts]


def _with_common_count(cluster: Table, counts: list[int | None]) -> list[int | None]:
    """Move a number that all hosts have to [cluster]. Return the numbers that stay with hosts."""
    if len(set(counts)) == 1 and counts[0] is not None:
        cluster["devices"] = counts[0]
        return [None] * len(counts)
    if None not in counts:
        cluster.pop("devices", None)
    return counts


def _check_slots(host_list: HostList, notes: list[str]) -> None:
    """Raise UsageError for slots that cannot be devices, and note that others were taken for devices."""
    largest = max(host_list.hosts, key=lambda host: host.slots or 0)
    if (largest.slots or 0) > MOST_DEVICES:
        raise UsageError(
            f"{largest.name} has {largest.slots} slots, which cannot be devices. Set the number with --devices"
        )
    if largest.slots and not host_list.slots_are_devices:
        notes.append(
            "each slot (Slurm task) was counted as one device. If that is wrong, set the number with --devices"
        )


def _first_and_number(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _ssh_tables(host_list: HostList, options: ImportOptions, old: Sequence[Table]) -> tuple[Table, list[Table]]:
    """Return the settings that all hosts have, and those of each host without them."""
    user = {"user": options.user} if options.user else {}
    hosts_and_tables = zip(host_list.hosts, old, strict=True)
    tables: list[Table] = [before.get("ssh", {}) | user | _listed_ssh(host) for host, before in hosts_and_tables]
    common = {key: value for key, value in tables[0].items() if all(table.get(key) == value for table in tables)}
    return common, [{key: value for key, value in table.items() if key not in common} for table in tables]


def _listed_ssh(host: ListedHost) -> Table:
    """Return the settings that the list has for a host."""
    return {key: value for key in _SSH_KEYS if (value := getattr(host, key)) is not None}


def _prefix(host_list: HostList, options: ImportOptions, product: Product, notes: list[str]) -> int:
    """Return the prefix of the devices' addresses, or 0 if they are left out."""
    if not any(host.device_ips for host in host_list.hosts):
        return 0
    if not product.is_npu:
        notes.append(f"device addresses were left out, because {product} devices have none")
        return 0
    if options.prefix is None:
        raise UsageError(
            "the list has device addresses without a netmask. Set it with --device-prefix, such as "
            "--device-prefix 24, or leave the addresses out with --device-prefix 0"
        )
    if not options.prefix:
        notes.append("device addresses were left out because of --device-prefix 0")
    return options.prefix


def _refuse_addresses(host_list: HostList, cluster: Table, plan: Table) -> None:
    """Raise AddressError for addresses that hccn_tool refuses, such as the 192.168.1.8 of tables in manuals."""
    product = Product(cluster["product"])
    amp = product is Product.ATLAS_A1 and plan.get("plan") == "one-subnet"
    refused = refused_ranges(product, amp=amp, superpod=bool(cluster.get("superpod")))
    for host in host_list.hosts:
        for ip in host.device_ips:
            if network := refused_range(ip, refused):
                why = f"which hccn_tool rejects on {product}, since the driver uses {network}"
                text = f"{host.name} has device_ip {ip}, {why}. Leave the addresses out with --device-prefix 0"
                raise AddressError(host.path, text)


def _host_table(host: ListedHost, before: Table, count: int | None, ssh: Table) -> Table:
    values = {
        "name": host.name,
        "address": host.address or before.get("address") or None,
        "devices": count,
        "nic": before.get("nic"),
        "slot": before.get("slot"),
        "ssh": ssh or None,
    }
    return {key: value for key, value in values.items() if value is not None}


def _device_values(host: ListedHost, prefix: int, before: Table, devices: int) -> Table:
    """Return the values for each device: addresses of the list, else the values of the base, if the number is right."""
    addresses = [f"{ip}/{prefix}" for ip in host.device_ips] if prefix else []
    old = {key: before[key] for key in _DEVICE_KEYS if key in before}
    if addresses in ([], old.get("device_addresses")) and all(len(values) == devices for values in old.values()):
        return old
    return {"device_addresses": addresses} if addresses else {}


def _left_out_values(old: Sequence[Table], tables: Sequence[Table]) -> list[str]:
    """Return a sentence on hosts that lost values for each of their devices."""
    names = [
        table["name"]
        for before, table in zip(old, tables, strict=True)
        if any(key in before and before[key] != table.get(key) for key in _DEVICE_KEYS)
    ]
    if not names:
        return []
    text = f"device addresses of {_first_and_number(names)} in --base were left out"
    return [f"{text}, because the list has other addresses or another number of devices"]


def _waivers(waivers: Sequence[Table], host_list: HostList, notes: list[str]) -> Table:
    """Return the base's waivers of hosts that are in the list."""
    names = {host.name for host in host_list.hosts} | {"*"}
    if dropped := [f"{waiver['check']} for {waiver['host']}" for waiver in waivers if waiver["host"] not in names]:
        notes.append(f"waivers of hosts that are not in the list were left out: {_first_and_number(dropped)}")
    kept = [waiver for waiver in waivers if waiver["host"] in names]
    return {"waivers": kept} if kept else {}
