"""A list of hosts → the tables of an inventory, with what was assumed. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from preflight.hostlists.listed import Listed, ListedHost
from preflight.inventory.host_tables import Table, apart, together
from preflight.model.addressing import refused_range, refused_ranges
from preflight.model.cluster import Product
from preflight.model.errors import UsageError
from preflight.ranktable.types import Path

MOST_DEVICES = 64
_USUAL_DEVICES = 8  # of a server, if nobody says otherwise
_USUAL_PRODUCT = Product.ATLAS_A2
_SSH = ("user", "port", "key", "bastion", "sudo")
_OF_DEVICES = ("device_addresses", "gateways", "detect")  # of a host: an entry a device


@dataclass(frozen=True)
class Wishes:
    """What the caller says of what a list does not. `prefix`: the length of the devices' netmask; 0: leave their
    addresses out."""

    name: str = ""
    product: str = ""
    user: str = ""
    devices: int | None = None
    prefix: int | None = None


class AddressError(UsageError):
    """A device cannot have this address, which stands in the list where `path` leads to."""

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(sentence)
        self.path = path


def by_name(listed: Listed, base: Mapping[str, Any] | None) -> Listed:
    """Hosts that the list calls by an address, under the names that `base` has for them."""
    tables = apart(base["hosts"]) if base else {}
    names = {table["address"]: name for name, table in tables.items() if "address" in table}
    named = {host.name: names[host.name] for host in listed.hosts if host.name in names}
    if not named or not {host.name for host in listed.hosts}.isdisjoint(named.values()):
        return listed
    return replace(listed, hosts=tuple(replace(host, name=named.get(host.name, host.name)) for host in listed.hosts))


def document_of(listed: Listed, wishes: Wishes, base: Mapping[str, Any] | None = None) -> tuple[Table, list[str]]:
    """The tables, and sentences on what was assumed. `base`: an inventory as TOML has it, of which everything is kept
    that the list does not say, but for hosts that the list does not name. Raises UsageError where something has to be
    said that nobody did, AddressError for an address that no device can have."""
    assumed: list[str] = list(listed.notes)
    kept = {key: value for key, value in (base or {}).items() if key != "hosts"}
    known = apart(base["hosts"]) if base else {}
    old = [known.get(host.name, {}) for host in listed.hosts]
    cluster = dict(kept.get("cluster", {}))
    _name_and_product(cluster, listed, wishes, assumed)
    product = Product(cluster["product"])
    counts = _counts(cluster, listed, wishes, old, assumed)
    if len(set(counts)) == 1 and counts[0] is not None:
        cluster["devices"], counts = counts[0], [None] * len(counts)
    elif None not in counts:
        cluster.pop("devices", None)
    ssh = [_ssh_of(host, wishes, before) for host, before in zip(listed.hosts, old, strict=True)]
    common = {key: value for key, value in ssh[0].items() if all(own.get(key) == value for own in ssh)}
    own = [{key: value for key, value in said.items() if key not in common} for said in ssh]
    prefix = _prefix(listed, wishes, product, assumed)
    if prefix:
        _refuse_addresses(listed, cluster, kept.get("device_addresses", {}))
    tables = [
        {
            "name": host.name,
            **({"address": address} if (address := host.address or before.get("address")) else {}),
            **({"devices": count} if count is not None else {}),
            **{key: before[key] for key in ("nic", "slot") if key in before},
            **({"ssh": said} if said else {}),
            **_of_devices(host, prefix, before, cluster["devices"] if count is None else count),
        }
        for host, before, count, said in zip(listed.hosts, old, counts, own, strict=True)
    ]
    assumed += _lost(old, tables)
    document: Table = {"cluster": cluster}
    if common or "ssh" in kept:
        document["ssh"] = {**kept.get("ssh", {}), **common}
    waivers = _waivers(kept.pop("waivers", []), listed, assumed)
    document |= {key: value for key, value in kept.items() if key not in document}
    return document | {"hosts": together(tables)} | waivers, assumed


def _name_and_product(cluster: Table, listed: Listed, wishes: Wishes, assumed: list[str]) -> None:
    cluster["name"] = wishes.name or cluster.get("name") or listed.name or "imported"
    product = wishes.product or cluster.get("product") or listed.product
    if not product:
        product = _USUAL_PRODUCT.value
        assumed.append(f"the product is assumed to be {product}; say another one with --product")
    cluster["product"] = product
    if listed.superpod and product == Product.ATLAS_A3:
        cluster["superpod"] = True


def _counts(
    cluster: Table, listed: Listed, wishes: Wishes, old: Sequence[Table], assumed: list[str]
) -> list[int | None]:
    """Devices of every host; None: as [cluster] of the base has it."""
    if wishes.devices is not None:
        if any(host.slots not in (None, wishes.devices) for host in listed.hosts):
            assumed.append(f"the list's slots were left out, since --devices {wishes.devices} was said")
        return [wishes.devices] * len(listed.hosts)
    slots = [host.slots for host in listed.hosts]
    if most := max((n for n in slots if n), default=0):
        if most > MOST_DEVICES:
            name = next(host.name for host in listed.hosts if host.slots == most)
            raise UsageError(f"{most} slots of {name} are no devices; say how many a host has with --devices")
        if not listed.slots_are_devices:
            assumed.append("a slot (a task of Slurm) was taken for a device; say with --devices if that is wrong")
    slots = [before.get("devices") if n is None else n for n, before in zip(slots, old, strict=True)]
    if None in slots and "devices" not in cluster:
        usual = 0 if cluster["product"] == Product.CPU else _USUAL_DEVICES
        if usual:
            unsaid = [host.name for host, n in zip(listed.hosts, slots, strict=True) if n is None]
            which = "" if len(unsaid) == len(slots) else f" without slots ({_and_more(unsaid)})"
            assumed.append(f"hosts{which} are assumed to have {usual} devices each; say how many with --devices")
        slots = [usual if n is None else n for n in slots]
    return slots


def _and_more(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _ssh_of(host: ListedHost, wishes: Wishes, before: Table) -> Table:
    said = {key: value for key in _SSH if (value := getattr(host, key)) is not None}
    return {**before.get("ssh", {}), **({"user": wishes.user} if wishes.user else {}), **said}


def _prefix(listed: Listed, wishes: Wishes, product: Product, assumed: list[str]) -> int:
    """Of the devices' addresses; 0 where they are left out."""
    if not any(host.device_ips for host in listed.hosts):
        return 0
    if not product.is_npu:
        assumed.append(f"the devices' addresses were left out: {product} devices have none")
        return 0
    if wishes.prefix is None:
        raise UsageError(
            "the list has addresses of devices, and no netmask: say it with --device-prefix, such as "
            "--device-prefix 24, or leave the addresses out with --device-prefix 0"
        )
    if not wishes.prefix:
        assumed.append("the devices' addresses were left out, as --device-prefix 0 has it")
    return wishes.prefix


def _refuse_addresses(listed: Listed, cluster: Table, plan: Table) -> None:
    """Raises AddressError for what hccn_tool refuses. Manuals' tables are full of it: 192.168.1.8."""
    product = Product(cluster["product"])
    amp = product is Product.ATLAS_A1 and plan.get("plan") == "one-subnet"
    refused = refused_ranges(product, amp=amp, superpod=bool(cluster.get("superpod")))
    for host in listed.hosts:
        for ip in host.device_ips:
            if network := refused_range(ip, refused):
                why = f"hccn_tool of {product} refuses it, since the driver uses {network} itself"
                text = f"{host.name} has a device_ip {ip}: {why}; --device-prefix 0 leaves them out"
                raise AddressError(host.path, text)


def _of_devices(host: ListedHost, prefix: int, before: Table, devices: int) -> Table:
    """What is written out of the host's devices: as the list has it, else as it was, for as many devices."""
    ips = [f"{ip}/{prefix}" for ip in host.device_ips] if prefix else []
    was = {key: before[key] for key in _OF_DEVICES if key in before}
    if ips in ([], was.get("device_addresses")) and all(len(values) == devices for values in was.values()):
        return was
    return {"device_addresses": ips} if ips else {}


def _lost(old: Sequence[Table], tables: Sequence[Table]) -> list[str]:
    """A sentence on hosts of which something that was written out of their devices was left out."""
    pairs = zip(old, tables, strict=True)
    names = [new["name"] for was, new in pairs if any(key in was and was[key] != new.get(key) for key in _OF_DEVICES)]
    if not names:
        return []
    text = f"left out, device addresses of {_and_more(names)} in --base"
    return [f"{text}: the list has others, or another number of devices"]


def _waivers(waivers: Sequence[Table], listed: Listed, assumed: list[str]) -> Table:
    """Those of the base's hosts that are in the list."""
    names = {host.name for host in listed.hosts} | {"*"}
    if gone := [f"{waiver['check']} for {waiver['host']}" for waiver in waivers if waiver["host"] not in names]:
        assumed.append(f"left out, waivers of hosts that are not in the list: {_and_more(gone)}")
    kept = [waiver for waiver in waivers if waiver["host"] in names]
    return {"waivers": kept} if kept else {}
