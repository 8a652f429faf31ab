"""A list of hosts → the tables of an inventory, with what was assumed. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from preflight.hostlists.listed import Listed, ListedHost
from preflight.inventory.host_tables import Table, together
from preflight.model.cluster import Product
from preflight.model.errors import UsageError

MOST_DEVICES = 64
_USUAL_DEVICES = 8  # of a server, if nobody says otherwise
_USUAL_PRODUCT = Product.ATLAS_A2
_SSH = ("user", "port", "key", "bastion", "sudo")


@dataclass(frozen=True)
class Wishes:
    """What the caller says of what a list does not. `prefix`: the length of the devices' netmask; 0: leave their
    addresses out."""

    name: str = ""
    product: str = ""
    user: str = ""
    devices: int | None = None
    prefix: int | None = None


def document_of(listed: Listed, wishes: Wishes, base: Mapping[str, Any] | None = None) -> tuple[Table, list[str]]:
    """The tables, and sentences on what was assumed. `base`: an inventory as TOML has it, of which everything is kept
    but its hosts. Raises UsageError where something has to be said that nobody did."""
    assumed: list[str] = list(listed.notes)
    kept = {key: value for key, value in (base or {}).items() if key != "hosts"}
    cluster = dict(kept.get("cluster", {}))
    _name_and_product(cluster, listed, wishes, assumed)
    product = Product(cluster["product"])
    counts = _counts(cluster, listed, wishes, product, assumed)
    if len(set(counts)) == 1 and counts[0] is not None:
        cluster["devices"], counts = counts[0], [None] * len(counts)
    elif None not in counts:
        cluster.pop("devices", None)
    ssh = [_ssh_of(host, wishes) for host in listed.hosts]
    common = {key: value for key, value in ssh[0].items() if all(own.get(key) == value for own in ssh)}
    own = [{key: value for key, value in said.items() if key not in common} for said in ssh]
    prefix = _prefix(listed, wishes, product, assumed)
    tables = [
        {
            "name": host.name,
            **({"address": host.address} if host.address else {}),
            **({"devices": count} if count is not None else {}),
            **({"ssh": said} if said else {}),
            **_device_ips(host, prefix),
        }
        for host, count, said in zip(listed.hosts, counts, own, strict=True)
    ]
    document: Table = {"cluster": cluster}
    if common or "ssh" in kept:
        document["ssh"] = {**kept.get("ssh", {}), **common}
    waivers = {"waivers": kept.pop("waivers")} if "waivers" in kept else {}
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


def _counts(cluster: Table, listed: Listed, wishes: Wishes, product: Product, assumed: list[str]) -> list[int | None]:
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
    if None in slots and "devices" not in cluster:
        usual = 0 if product is Product.CPU else _USUAL_DEVICES
        if usual:
            assumed.append(f"hosts are assumed to have {usual} devices each; say how many with --devices")
        slots = [usual if n is None else n for n in slots]
    return slots


def _ssh_of(host: ListedHost, wishes: Wishes) -> Table:
    said = {key: value for key in _SSH if (value := getattr(host, key)) is not None}
    return {**({"user": wishes.user} if wishes.user else {}), **said}


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


def _device_ips(host: ListedHost, prefix: int) -> Table:
    return {"device_addresses": [f"{ip}/{prefix}" for ip in host.device_ips]} if prefix and host.device_ips else {}
